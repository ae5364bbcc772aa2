"""A verdict has a bound on its work, counted in steps: beyond it the line asks, and nothing is ever too deep."""

import random
import re

import pytest

from teamwright.permissions.decision_context import PermissionScope
from teamwright.permissions.excluded_paths import compile_patterns
from teamwright.permissions.line_sandbox_policy import find_programs
from teamwright.permissions.permission_decision import Policy
from teamwright.permissions.project_programs import configured_programs, proven_environment
from teamwright.permissions.shell_verdict import is_proven_read_only, used_directories
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.shell_lines import step_limit as verdict_work
from teamwright.shell_lines.step_limit import TOO_LARGE, TooMuchWork, bounded_work, found_once, spend_steps
from teamwright.storage.files import compile_globs
from tests.permissions.scratch import ScratchRepository

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    scratch = ScratchRepository(tmp_path_factory.mktemp("full"))
    for number in range(900):
        (scratch.project / f"f{number}").write_text("x\n")
    return scratch


HEAVY = {
    "stars": "cat " + "* " * 1_000,
    "stars of another program": "foo " + "* " * 1_000,
    "removed stars": "rm " + "* " * 1_000,
    "moves": "mv * sub; " * 100,
    "copies": "cp -r . ../y; " * 300,
    "launchers": "uv run " * 500 + "ls",
    "wrappers": "sudo -Z " * 300 + "ls",
    "directories": "&& ".join(f"cd f{number} " for number in range(2_000)) + "&& ls",
    "commands": "ls;" * 20_000,
}


@pytest.mark.finding("3P9")
@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.ACCEPT_EDITS])
def test_a_line_that_needs_too_much_work_asks_and_is_never_allowed(full, name, mode):
    for _ in range(2):  # a second verdict finds what the first one cached, and is the same
        decision = full.run(HEAVY[name], mode, allow=["Bash(cat:*)", "Bash(foo:*)", "Bash(ls:*)"])
        assert decision.verdict is ASK, decision
        assert not decision.find_always()


@pytest.mark.finding("3P9")
def test_a_line_beyond_the_bound_says_so_and_deny_rules_still_hold(full):
    assert TOO_LARGE in full.run(HEAVY["stars"]).reason
    assert full.run(HEAVY["stars"], deny=["Bash(shred:*)"]).verdict is DENY
    assert full.run(HEAVY["stars"], Mode.BYPASS, deny=["Read(a.py)"]).verdict is DENY
    assert full.run(HEAVY["stars"], allow=["Bash"]).verdict is ALLOW


@pytest.mark.finding("3P9")
def test_lines_of_everyday_use_stay_far_below_the_bound(full):
    assert full.run("cat f*").verdict is ALLOW
    assert full.run("grep -rn x . | head; cat f1 f2 f3; wc -l f*").verdict is ALLOW
    assert full.run("; ".join(f"cat f{number}" for number in range(300))).verdict is ALLOW


DEEP = {
    "calculations": "echo " + "$((" * 400 + "1" + "))" * 400,
    "calculations in brackets": "(( " + "$((" * 400 + "1" + "))" * 400 + " ))",
    "subshells": "( " * 400 + "ls" + " )" * 400,
    "substitutions": "echo " + "$(" * 400 + "ls" + ")" * 400,
    "defaults": "echo " + "${a:-" * 400 + "x" + "}" * 400,
    "braces": "echo " + "{a," * 400 + "b" + "}" * 400,
    "groups of find": "find . " + "\\( " * 4_000 + "-name x" + " \\)" * 4_000,
    "awk": "awk '" + "(" * 4_000 + "1" + ")" * 4_000 + "'",
    "sed": "sed -n '" + "{" * 4_000 + "p" + "}" * 4_000 + "' a.py",
    "jq": "jq '" + "[" * 4_000 + "' a.py",
    "python": "python -c '" + "(" * 4_000 + "'",
    "tests": "[[ " + "( " * 4_000 + "a" + " )" * 4_000 + " ]]",
    "functions": "f(){ " * 300 + "ls" + "; }" * 300,
    "directories of git": "git " + "-C . " * 1_000 + "status",
    "shells": "bash -c " * 400 + "ls",
    "processes": "cat " + "<(" * 300 + "ls" + ")" * 300,
}


@pytest.mark.finding("3P9")
@pytest.mark.parametrize("name", DEEP)
def test_no_nesting_is_too_deep_for_a_verdict(scratch, name):
    assert scratch.run(DEEP[name]).verdict in {ALLOW, ASK}
    assert scratch.policy().explain_command(scratch.access(DEEP[name]))


PIECES = [
    *(
        "$((",
        "))",
        "$(",
        ")",
        "(",
        "{",
        "}",
        "{a,",
        "${a:-",
        "`",
        "'",
        '"',
        "<(",
        "[[ ",
        " ]]",
        "\\( ",
        " \\)",
        "|",
        "&&",
    ),
    *(";", "\n", " ", " ! ", "cat ", "* ", "f* ", "sudo ", "xargs ", "bash -c ", "env ", "find . -exec ", "git -C . "),
    *(
        "cd x && ",
        "for a in *; do ",
        " done ",
        "if ",
        "then ",
        "fi ",
        "case x in ",
        "esac ",
        "awk '",
        "sed -n '",
        "<<A",
    ),
]


@pytest.mark.finding("3P9")
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_random_nesting_gets_a_verdict_within_the_bound(full, seed):
    chance = random.Random(seed)
    for _ in range(60):
        some = chance.sample(PIECES, 3)
        opened = [chance.choice(some) for _ in range(chance.choice([3, 40, 400]))]
        line = (
            "".join(opened)
            + chance.choice(["ls", "x", "1"])
            + "".join(chance.sample(PIECES, 3)) * chance.choice([1, 99])
        )
        decision = full.run(line, chance.choice([Mode.DEFAULT, Mode.ACCEPT_EDITS]), allow=["Bash(cat:*)"])
        assert decision.verdict in {ALLOW, ASK}


@pytest.mark.finding("3P9")
def test_steps_are_shared_by_nested_blocks_and_separate_ones_have_their_own():
    with bounded_work():
        spend_steps(verdict_work.MAX_STEPS)
        with bounded_work(separate=True):
            spend_steps(verdict_work.MAX_STEPS)
        with pytest.raises(TooMuchWork), bounded_work():
            spend_steps()
        with pytest.raises(TooMuchWork):  # it stays used up
            spend_steps()
    spend_steps(verdict_work.MAX_STEPS + 1)  # outside of a verdict nothing is counted


def test_a_value_is_found_once_in_a_verdict_and_anew_in_the_next():
    found = iter(range(9))
    with bounded_work():
        assert [found_once("key", lambda: next(found)), found_once("key", lambda: next(found))] == [0, 0]
    with bounded_work():
        assert found_once("key", lambda: next(found)) == 1


@pytest.mark.finding("3P9")
def test_a_loop_over_files_is_parsed_again_when_the_directory_has_changed(own_scratch):
    line = 'for f in sub/*; do cat "$f"; done'
    assert own_scratch.run(line).verdict is ALLOW
    (own_scratch.project / "sub" / "z").symlink_to(own_scratch.outside / "secret")
    assert own_scratch.run(line).verdict is ASK


@pytest.mark.finding("3P9")
def test_patterns_of_rules_and_of_glob_with_many_stars_are_fast():
    name, deep = "a" * 200, "a/" * 60 + "c"
    assert compile_globs(["*a" * 40 + "b"]).match(name) is None
    assert compile_globs(["**/*a/" * 12 + "b"]).match(deep) is None
    assert compile_globs(["**/a/" * 20 + "b"]).match(deep) is None
    assert compile_patterns([("**", "a") * 20 + ("b",)]).fullmatch(deep) is None
    assert compile_patterns([("*a" * 40 + "b",)]).fullmatch(name) is None
    with pytest.raises(re.error):
        compile_globs(["**/a" * 3 + "x**a" * 12])


@pytest.mark.finding("3P9")
def test_rules_with_many_stars_are_fast(scratch):
    rules = ["Read(" + "**/a/" * 20 + "b)", "Read(" + "*a" * 40 + "b)", "Bash(" + "*a" * 40 + "b)"]
    assert scratch.read("a/" * 60 + "c", deny=rules).verdict is ALLOW
    assert scratch.read("a" * 200, deny=rules).verdict is ALLOW
    assert scratch.run("ls " + "a" * 200, deny=rules).verdict is ALLOW
    assert scratch.run('cat "$X"' + "/a" * 60, deny=rules).verdict is not ALLOW


def _plainly_named(names: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Return what the expression of a pattern must say, as slowly as may be."""
    if not names:
        return True  # everything below it
    if names[0] == "**":
        return _plainly_named(names[1:], path) or (bool(path) and _plainly_named(names, path[1:]))
    expression = re.escape(names[0]).replace(r"\*", ".*").replace(r"\?", ".")
    return bool(path) and re.fullmatch(expression, path[0]) is not None and _plainly_named(names[1:], path[1:])


@pytest.mark.finding("3P9")
def test_the_expression_of_a_pattern_says_what_a_plain_comparison_says():
    chance = random.Random(7)
    for _ in range(4_000):
        names = [
            chance.choice(["**", "a", "*", "a*", "*a", "a*b", "*a*b*", "?", "b?*"]) for _ in range(chance.randint(1, 5))
        ]
        names[-1] = names[-1] if names[-1] != "**" else "*"
        path = ["".join(chance.choice("ab") for _ in range(chance.randint(1, 4))) for _ in range(chance.randint(1, 5))]
        said = compile_patterns([tuple(names)]).fullmatch("/".join(path)) is not None
        assert said is _plainly_named(tuple(names), tuple(path)), (names, path)


@pytest.mark.finding("3P9", "3S1")
def test_a_line_that_is_too_large_to_judge_opens_nothing_when_it_is_approved(tmp_path):
    policy = Policy(Mode.DEFAULT, (), PermissionScope(directories=(tmp_path,), base=tmp_path))
    outside = " ".join(f"/var/tmp/{number}/x" for number in range(20_000))
    for line, opens in (("touch /var/tmp/1/x", True), (f"touch {outside}", False)):
        access = Access(command=line, cwd=tmp_path)
        grant = policy.grant_for(access, policy.decide("Bash", access))
        assert bool(grant.named.writable) is opens


@pytest.mark.finding("3P9")
def test_what_belongs_to_a_line_is_bounded_too_and_a_line_beyond_the_bound_gets_the_careful_answer(full):
    place, line = full.project, "git status; ls *"
    env = {"PATH": f"{full.project}/.venv/bin:/usr/bin", "PYTHONPATH": str(full.project)}
    with bounded_work():
        with pytest.raises(TooMuchWork):
            spend_steps(verdict_work.MAX_STEPS + 1)
        assert not is_proven_read_only(line, place)
        assert used_directories(full.access(line), full.policy().scope) is None
        assert find_programs(line, place).others == {None}
        assert configured_programs(line, place) == ["git"]
        found = proven_environment(line, place, env, [place])
        assert (found["PATH"], "PYTHONPATH" in found) == ("/usr/bin", False)
