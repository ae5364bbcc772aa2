"""The paths that an allowed line opens in the sandbox for its call: those that its words name, and no others."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.rules import parse_rules
from teamwright.permissions.verdict import BY_SANDBOX, Access, Decision, Mode, Verdict
from teamwright.sandbox.policy import PolicyName

pytestmark = pytest.mark.finding("3S1")


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    for name in ("work", "out/deep", "other", "home/notes"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("out/there.txt", "home/in.txt", "work/a.txt"):
        (tmp_path / name).write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def policy(place: Path, *denied: str, mode: Mode = Mode.BYPASS) -> Policy:
    rules = parse_rules(denied, Verdict.DENY, "test", place / "work")
    return Policy(mode, rules, PermissionScope(directories=(place / "work",), base=place / "work"))


def opened(place: Path, line: str, by: Policy | None = None) -> set[str]:
    """Return what the line opens to be changed, relative to the directory of the test."""
    by, access = by or policy(place), Access(command=line.format(p=place), cwd=place / "work")
    named = by.grant_for(access, by.decide("Bash", access)).named
    return {str(Path(path).relative_to(place)) for path in named.writable}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("cp a.txt {p}/out/c.txt", {"out"}),
        ("cp a.txt ../out/c.txt", {"out"}),
        ("cp a.txt {p}/out/new/c.txt", {"out"}),
        ("cp a.txt {p}/out/there.txt", {"out/there.txt"}),
        ("sed -i s/x/y/ {p}/out/there.txt", {"out"}),
        ("echo x > {p}/out/c.txt", {"out"}),
        ("echo x >> {p}/out/there.txt", {"out/there.txt"}),
        ("echo x > {p}/out/$NAME.txt", {"out"}),
        ("make | tee {p}/out/log", {"out"}),
        ("mkdir -p {p}/out/deep/er", {"out/deep"}),
        ("rm -r {p}/out/deep", {"out", "out/deep"}),
        ("tool --out={p}/out/c", {"out"}),
        ("tool {p}/out/there.txt", {"out"}),
        ("OUT={p}/out tool", {"out"}),
        ("tool OUT={p}/out", {"out"}),
        ("cd {p}/out && tool", {"out"}),
        ("cp a.txt ~/notes/n.txt", {"home/notes"}),
        ("cp a.txt $HOME/notes/n.txt", {"home/notes"}),
        ("tool ~/in.txt", {"home/in.txt"}),
        ("sh -c 'cp a.txt {p}/out/c.txt'", {"out"}),
        ("timeout 5 env X=1 cp a.txt {p}/out/c.txt", {"out"}),
        ("""python3 -c "open('{p}/out/c.txt', 'w')" """, {"out"}),
        ("python3 <<E\nopen('{p}/out/c.txt', 'w')\nE", {"out"}),
        ("for n in 1 2; do cp a.txt {p}/out/$n; done", {"out"}),
    ],
)
def test_a_line_opens_the_files_that_its_words_name(place, line, expected):
    assert opened(place, line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "cat {p}/out/there.txt",
        "ls {p}/out; wc -l < {p}/out/there.txt",
        "cp a.txt b.txt",
        "git commit -m 'about {p}/out/there.txt'",
        "echo {p}/out/c.txt",
        "gcc -I{p}/out a.c",
        "python3 {p}/out/there.txt",
        "echo x > ~/.bashrc",
        "cp a.txt ~/.config/git/config",
        "cp a.txt {p}/out/.git/hooks/post-checkout",
        "echo x > /dev/null",
        "cp a.txt /new-file-of-the-root",
        "curl https://example.com{p}/out/c.txt",
    ],
)
def test_what_is_read_or_protected_or_no_path_opens_nothing(place, line):
    assert opened(place, line) == set()


def test_a_deny_rule_keeps_what_it_names_closed(place):
    assert opened(place, "tool {p}/out/there.txt {p}/other", policy(place, f"Edit(/{place}/other/**)")) == {"out"}
    assert opened(place, "tool {p}/other/x", policy(place, f"Edit(/{place}/other/**)")) == set()


def test_a_line_that_is_read_only_or_that_the_sandbox_answers_opens_nothing(place):
    by = policy(place)
    access = Access(command=f"tool {place}/out/c.txt", cwd=place / "work")
    by_rule = Decision(Verdict.ALLOW, "rule Bash(tool:*)", "")
    assert by.grant_for(access, by_rule).named.writable
    for decision in (replace(by_rule, rule=BY_SANDBOX), replace(by_rule, confinement=PolicyName.READ)):
        assert by.grant_for(access, decision).named.writable == ()


def test_a_narrower_policy_above_bounds_the_directories_of_a_grant(place):
    below = policy(place).narrow_to(policy(place))
    below.change_scope(PermissionScope(directories=(place / "work", place / "out"), base=place / "work"))
    access = Access(command="cp a.txt b.txt", cwd=place / "work")
    assert below.grant_for(access, below.decide("Bash", access)).directories == (place / "work",)


_RULES = ("Bash(make test)", "Bash(tool:*)", "Bash(cp:*)", "Bash(python3 x.py)", "Bash(docker exec:*)")


def ruled(place: Path, *more: str, mode: Mode = Mode.DEFAULT) -> Policy:
    """Return a policy with rules of a person for single commands."""
    rules = parse_rules((*_RULES, *more), Verdict.ALLOW, "test", place / "work", by_user=True)
    return Policy(mode, rules, PermissionScope(directories=(place / "work",), base=place / "work"))


@pytest.mark.finding("3H1")
@pytest.mark.parametrize(
    "line",
    [
        "make test # x={p}/out",
        "make test # {p}/out/c.txt",
        "echo x={p}/out; make test",
        "grep ' x=~' a.txt; make test",
        "x={p}/out; make test",
        "y={p}/out/c.txt; echo $y && make test",
        "make test <<< ' x={p}/out'",
        "printf '%s' 'a x={p}/out' | make test",
        "python3 x.py <<E\nopen('{p}/out/c.txt')\nE",
    ],
)
def test_words_of_a_line_that_no_rule_covers_open_nothing_for_a_command_that_a_rule_allows(place, line):
    access = Access(command=line.format(p=place), cwd=place / "work")
    assert ruled(place).decide("Bash", access).verdict is Verdict.ALLOW
    assert opened(place, line, ruled(place)) == set()
    assert opened(place, line, ruled(place, mode=Mode.BYPASS)) in ({"out"}, {"home"}, set())  # all of it was seen


@pytest.mark.finding("3H1")
def test_a_person_who_allows_a_line_has_seen_its_assignments(place):
    line = "OUT={p}/out other"
    access = Access(command=line.format(p=place), cwd=place / "work")
    by = ruled(place)
    assert by.decide("Bash", access).verdict is Verdict.ASK
    assert opened(place, line, by) == {"out"}
    by_now = Decision(Verdict.ALLOW, "rule that came with the answer", "")
    assert by.grant_for(access, by_now, is_approved=True).named.writable == (str(place / "out"),)


@pytest.mark.finding("3H2")
def test_a_rule_that_lets_a_file_be_read_opens_it_to_be_read_only(place):
    reading, line = f"Read(/{place}/out/**)", "tool {p}/out/there.txt"
    access = Access(command=line.format(p=place), cwd=place / "work")
    grant = ruled(place, reading).grant_for(access, ruled(place, reading).decide("Bash", access))
    assert ruled(place, reading).decide("Bash", access).verdict is Verdict.ALLOW
    assert (grant.named.writable, grant.named.readable) == ((), (str(place / "out/there.txt"),))
    for rule in (f"Edit(/{place}/out/**)", f"Bash(tool {place}/out/there.txt:*)", f"Bash(tool {place}/out/*)", "Bash"):
        assert opened(place, line, ruled(place, reading, rule)) == {"out"}, rule


@pytest.mark.finding("3H1")
def test_the_opened_directories_are_those_that_the_rules_of_every_agent_above_cover(place):
    line = f"Bash(tool {place}/out/there.txt)"
    access = Access(command=f"tool {place}/out/there.txt", cwd=place / "work")
    for above, expected in ((ruled(place, line), True), (ruled(place, f"Read(/{place}/out/**)"), False)):
        by = ruled(place, line).narrow_to(above)
        decision = by.decide("Bash", access)
        assert decision.verdict is Verdict.ALLOW
        assert bool(by.grant_for(access, decision).named.writable) is expected
