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
    by = policy(place, mode=Mode.DEFAULT)
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
