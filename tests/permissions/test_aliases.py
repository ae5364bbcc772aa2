"""Aliases: both what was written and what the shell makes of it are decided on."""

import pytest

from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.tools.shell.command_line import expand_aliases
from tests.permissions.scratch import ScratchRepository

ALIASES = {
    "gp": "git push",
    "gst": "git status",
    "npm": "npm --silent",
    "sudo": "sudo ",
    "ls": "ls --color",
    "ll": "ls -l",
    "one": "two",
    "two": "one",
    "..": "cd ..",
    "both": "echo a; gp",
    "touch": "rm -rf",
}


@pytest.fixture
def scratch(tmp_path) -> ScratchRepository:
    return ScratchRepository(tmp_path)


@pytest.mark.promise("E7")
@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("gp -f && ll a", "git push -f && ls --color -l a"),
        ("echo gp; \\gp; 'gp'; command gp", "echo gp; \\gp; 'gp'; command gp"),
        ("sudo sudo gp", "sudo  sudo  git push"),
        ("A=1 gp | ll; (gp); { gp; }; ! gp", "A=1 git push | ls --color -l; (git push); { git push; }; ! git push"),
        ('x=$(gp) y="$(gp)" `gp`', 'x=$(git push) y="$(git push)" `git push`'),
        (
            "if gp; then ..; fi; for gp in ll; do gp; done",
            "if git push; then cd ..; fi; for gp in ll; do git push; done",
        ),
        ("cat <<X\ngp\nX", "cat <<X\ngp\nX"),
        ("one; two", "one; two"),
        ("time gp", "time  git push"),
        ("both", "echo a; git push"),
        ("echo 'ü'; ll ü", "echo 'ü'; ls --color -l ü"),
        ("echo 'never closed ll", "echo 'never closed ll"),
        ("x" * 70_000, "x" * 70_000),
    ],
)
def test_an_alias_is_put_in_place_where_it_names_a_command(written, means):
    assert expand_aliases(written, ALIASES) == means
    assert expand_aliases(written, {}) == written


def test_aliases_that_grow_without_end_are_left_as_they_are():
    grows = {f"a{n}": f"a{n + 1}; a{n + 1}" for n in range(60)}
    deep = {f"a{n}": f"a{n + 1}" for n in range(600)}
    assert (
        expand_aliases("a0", grows) == expand_aliases("a0", deep) == expand_aliases("a0", {"a0": "x" * 70_000}) == "a0"
    )


@pytest.mark.promise("E7", "G2")
@pytest.mark.parametrize(
    ("written", "mode", "rules", "verdict", "said"),
    [
        ("gp", Mode.BYPASS, {"deny": ["Bash(git push:*)"]}, "deny", "Bash(git push:*)"),
        ("true && both", Mode.BYPASS, {"deny": ["Bash(git push:*)"]}, "deny", "Bash(git push:*)"),
        ("gp", Mode.BYPASS, {}, "allow", "mode"),
        ("gp", Mode.DEFAULT, {"allow": ["Bash(gp:*)"]}, "ask", "git policy"),
        ("gp", Mode.DEFAULT, {"allow": ["Bash(gp:*)", "Bash(git push:*)"]}, "allow", "Bash(gp:*)"),
        ("gst", Mode.DEFAULT, {}, "ask", "mode"),
        ("gst", Mode.DEFAULT, {"allow": ["Bash(gst)"]}, "allow", "Bash(gst)"),
        ("npm test", Mode.DEFAULT, {"allow": ["Bash(npm test:*)"]}, "allow", "Bash(npm test:*)"),
        ("npm test", Mode.DEFAULT, {"allow": ["Bash(npm test:*)"], "ask": ["Bash(npm --silent:*)"]}, "ask", "--silent"),
        ("touch a.py", Mode.ACCEPT_EDITS, {}, "ask", "mode"),
        ("touch a.py", Mode.DONT_ASK, {}, "deny", "mode"),
    ],
)
def test_the_stricter_form_decides_but_a_rule_about_what_was_written_stands(
    scratch, written, mode, rules, verdict, said
):
    access = Access(command=written, cwd=scratch.project, expanded_command=expand_aliases(written, ALIASES))
    decision = scratch.policy(mode, **rules).decide("Bash", access)
    assert (decision.verdict, said in decision.rule) == (Verdict(verdict), True), decision


def test_a_refusal_names_what_the_alias_stands_for(scratch):
    access = Access(command="gp", cwd=scratch.project, expanded_command="git push")
    decision = scratch.policy(deny=["Bash(git push:*)"]).decide("Bash", access)
    assert "By your shell's aliases it runs git push" in decision.reason


@pytest.mark.promise("G2")
def test_words_of_zsh_that_only_start_a_command_hide_nothing(scratch):
    for command in ("noglob git push", "nocorrect git push origin"):
        assert scratch.run(command, Mode.BYPASS, deny=["Bash(git push:*)"]).verdict is Verdict.DENY
