"""Path ownership: only a person allows a change of paths that belong to others, by every tool, in every mode."""

from pathlib import Path

import pytest

from teamwright.permissions.decision_context import OwnedPaths, PathOwnership, PermissionScope
from teamwright.permissions.grant_offers import suggest_updates
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import PathPattern, parse_rules
from teamwright.permissions.verdict import Access, Decision, Mode, Verdict
from teamwright.sandbox.policy import PolicyName


@pytest.fixture
def base(tmp_path: Path) -> Path:
    for name in ("src/api/a.py", "src/web/w.py", "docs/d.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "link.py").symlink_to(tmp_path / "src/api/a.py")
    (tmp_path / "alias").symlink_to(tmp_path / "src/api")
    return tmp_path


def policy(base: Path, mode: Mode, owned: PathOwnership, *allowed: str) -> Policy:
    """The policy of an agent as a session makes it: path ownership in one more parent."""
    rules = parse_rules(allowed, Verdict.ALLOW, "test", base)
    bounds = Policy(Mode.BYPASS, (), PermissionScope(base=base, ownership=owned), bounds_writes=True)
    return Policy(mode, rules, PermissionScope(directories=(base,), base=base)).narrow_to(bounds)


def others(base: Path, *, strict: bool = False) -> PathOwnership:
    paths = OwnedPaths.parse("api", "src/api/**", "team.toml:3", base)
    return PathOwnership(owned_by_others=(paths,), strict=strict)


def own(base: Path, *, strict: bool = False) -> PathOwnership:
    only = PathPattern.parse("docs/**", base, False)
    return PathOwnership(allowed_only=(only,), role="writer", source="team.toml:7", strict=strict)


def asks_person(decision: Decision, policy: Policy, tool: str, access: Access) -> bool:
    """The question is one that no "always" rule and no grant answers, or a denial where no question is asked."""
    if policy.mode is Mode.DONT_ASK:
        return decision.verdict is Verdict.DENY
    offers = suggest_updates(tool, access, decision, policy, decision.find_always())
    return decision.verdict is Verdict.ASK and decision.needs_person and not decision.find_always() and not offers


COMMANDS = [
    "echo x > src/api/a.py",
    "echo x >> alias/new.py",
    "cat docs/d.md | tee src/api/a.py",
    "rm src/api/a.py",
    "rm -rf src",
    "rm -rf src/*",
    "cd src && rm api/a.py",
    "sed -i s/a/b/ src/api/a.py",
    "cp docs/d.md src/api/a.py",
    "mv src/api/a.py docs/",
    "mv src elsewhere",
    "touch src/api/new.py",
    "mkdir src/api/deep",
    "ln -sf docs/d.md src/api/a.py",
    "dd if=docs/d.md of=src/api/a.py",
    "true && { truncate -s 0 link.py; }",
    "sh -c 'rm src/api/a.py'",
    "find docs -name x -exec rm src/api/a.py {} +",
    "cp -t src/api docs/d.md",
    "cp --target-directory=src/api docs/d.md",
    "cp --force docs/d.md src/api/a.py",
    "mv -tsrc/api docs/d.md",
    "mv --force src/api/a.py docs/",
    "touch -d yesterday src/api/a.py",
    "mkdir --parents src/api/x",
    "sed -ni p src/api/a.py",
    "sed -Ei s/a/b/ src/api/a.py",
    "perl -pi -e s/a/b/ src/api/a.py",
    "gawk -i inplace 1 src/api/a.py",
    "find src -delete",
    "find docs -fprint src/api/a.py",
    "sort -osrc/api/a.py docs/d.md",
    "curl --output src/api/a.py https://example.org/",
    "tar -xf x.tar -C src/api",
    "git checkout HEAD -- src/api/a.py",
    "git -C src restore api/a.py",
    "git -c a=b rm -f src/api/a.py",
    "gzip src/api/a.py",
]


@pytest.mark.promise("F45")
@pytest.mark.parametrize("mode", [m for m in Mode if m not in {Mode.BUBBLE, Mode.PLAN}])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.slow_after(60)
def test_only_a_person_allows_a_command_that_changes_somebody_elses_file_and_strict_denies_it(base, mode, command):
    access, bounded = Access(command=command, cwd=base), policy(base, mode, others(base), "Bash")
    decision = bounded.decide("Bash", access)
    assert asks_person(decision, bounded, "Bash", access)
    assert "api" in decision.reason
    assert "team.toml:3" in decision.rule
    sandboxed = Access(command=command, cwd=base, sandbox=frozenset(PolicyName))
    assert bounded.decide("Bash", sandboxed).verdict is not Verdict.ALLOW
    assert policy(base, mode, others(base, strict=True), "Bash").decide("Bash", access).verdict is Verdict.DENY


@pytest.mark.parametrize("path", ["src/api/a.py", "src/api/new/deep.py", "link.py", "alias/a.py", "SRC/API/a.py"])
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.BYPASS, Mode.ACCEPT_EDITS, Mode.DONT_ASK])
def test_only_a_person_allows_an_edit_of_somebody_elses_file_by_name_and_by_real_path(base, path, mode):
    for tool in ("Edit", "Write", "NotebookEdit"):
        access, bounded = Access(writes=(base / path,)), policy(base, mode, others(base), "Edit")
        decision = bounded.decide(tool, access)
        assert asks_person(decision, bounded, tool, access)
        assert "belongs to the role api" in decision.reason
        assert policy(base, mode, others(base, strict=True), "Edit").decide(tool, access).verdict is Verdict.DENY


@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.ACCEPT_EDITS])
def test_the_sandbox_does_not_answer_for_a_program_that_may_change_somebody_elses_file(base, mode):
    access = Access(command="python build.py", cwd=base, sandbox=frozenset({PolicyName.WORK}))
    free = Policy(mode, (), PermissionScope(directories=(base,), base=base))
    assert free.decide("Bash", access).rule == "sandbox"
    assert policy(base, mode, own(base)).decide("Bash", access).verdict is Verdict.ASK


def test_a_grant_to_the_agent_lifts_no_path_ownership(base):
    bounded, access = policy(base, Mode.DEFAULT, own(base)), Access(writes=(base / "src/web/w.py",))
    bounded.grant(parse_rules(["Write"], Verdict.ALLOW, "plan", base))
    assert bounded.decide("Write", Access(writes=(base / "docs/d.md",))).verdict is Verdict.ALLOW
    assert bounded.decide("Write", access).verdict is Verdict.ASK
    assert bounded.with_mode(Mode.PLAN).decide("Write", access).verdict is Verdict.DENY


@pytest.mark.parametrize(
    "command",
    [
        "cat src/api/a.py",
        "grep x src/api/a.py > docs/found",
        "rm docs/d.md",
        "ls src",
        "sed -n p src/api/a.py",
        "perl -ne print src/api/a.py",
        "cp --preserve src/api/a.py docs/",
        "sort src/api/a.py -o docs/sorted",
        "git checkout main",
        "git diff src/api/a.py",
        "find src -name a.py",
    ],
)
def test_reading_it_and_changing_other_files_is_as_without_a_fence(base, command):
    fenced = policy(base, Mode.BYPASS, others(base)).decide("Bash", Access(command=command, cwd=base))
    assert fenced.verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "command",
    [
        "echo x > $F",
        "rm $F",
        "xargs rm < list",
        "for f in $L; do rm $f; done",
        "cd $D && rm api/a.py",
        'cp a "$F"',
    ],
)
def test_a_file_that_only_the_shell_will_know_is_asked_about(base, command):
    decision = policy(base, Mode.BYPASS, others(base)).decide("Bash", Access(command=command, cwd=base))
    assert decision.verdict is Verdict.ASK
    assert "only the shell will know" in decision.reason


@pytest.mark.finding("3P5")
@pytest.mark.parametrize("written", ["a\\ b", "\\$HOME\\ x", "src/my\\\tfile"])
def test_a_name_with_an_escaped_blank_is_judged_as_the_quoted_one(base, written, monkeypatch):
    monkeypatch.setenv("HOME", str(base.parent))
    strict = Policy(Mode.ACCEPT_EDITS, (), PermissionScope(directories=(base,), base=base))
    quoted = "'" + written.replace("\\", "") + "'"
    for line in ("cat {}", "touch {}", "cat ~/{}", "cat < {}", "cp {} new", "cat $HOME/.teamwright/{}"):
        found, wanted = (
            strict.decide("Bash", Access(command=line.format(name), cwd=base)) for name in (written, quoted)
        )
        assert (line, found.verdict, found.reason) == (line, wanted.verdict, wanted.reason)
    assert strict.decide("Bash", Access(command=f"cat {written}", cwd=base)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(("path", "verdict"), [("docs/new.md", "allow"), ("src/web/w.py", "ask"), ("x.py", "ask")])
def test_an_agent_with_files_of_its_own_asks_before_it_changes_others(base, path, verdict):
    decision = policy(base, Mode.ACCEPT_EDITS, own(base)).decide("Write", Access(writes=(base / path,)))
    assert str(decision.verdict) == verdict
    if verdict == "ask":
        strict = policy(base, Mode.ACCEPT_EDITS, own(base, strict=True))
        assert strict.decide("Write", Access(writes=(base / path,))).verdict is Verdict.DENY
        assert "writer changes only its own files" in decision.reason


def test_a_link_out_of_ones_own_files_leads_nowhere(base):
    (base / "docs/way").symlink_to(base / "src")
    decision = policy(base, Mode.BYPASS, own(base)).decide("Write", Access(writes=(base / "docs/way/web/w.py",)))
    assert decision.verdict is Verdict.ASK
