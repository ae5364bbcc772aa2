"""Variables that a line sets: harmless ones by name, those of the script itself, and all others, which ask."""

import os
import shutil
import subprocess

import pytest

from teamwright.permissions.verdict import Mode, Verdict
from tests.support.programs import require
from tests.support.waits import WAIT_S

TEST = ["Bash(npm test)", "Bash(export:*)", "Bash(read:*)", "Bash(set:*)", "Bash(printf:*)", "Bash(env:*)"]

REACHES_PROGRAMS = """
printf '%n' PATH; npm test
FOO=bar npm test
foo=bar npm test
npm_config_node_options=--import=data:x npm test
npm_config_script_shell=./x npm test
NPM_CONFIG_SCRIPT_SHELL=./x npm test
PATH=. npm test
LANGUAGE=../x npm test
https_proxy=x npm test
env foo=bar npm test
env -u HOME npm test
env -S 'foo=bar npm test'
timeout 5 env foo=bar npm test
export FOO=bar; npm test
export foo=bar; npm test
export "foo=bar"; npm test
export 'PATH=.'; npm test
export $'PATH=.'; npm test
export foo; foo=bar; npm test
foo=bar; export foo; npm test
command export foo=bar; npm test
eval 'export foo=bar'; npm test
x=1 export foo=bar; npm test
set -a; foo=bar; npm test
set -o allexport; foo=bar; npm test
set -ea; foo=bar; npm test
""".strip().splitlines()

MAY_BE_EXPORTED_ALREADY = """
FOO=bar; npm test
PATH=.; npm test
readonly 'PATH=.'; npm test
npm_config_script_shell=./x; npm test
pip_index_url=x; npm test
http_proxy=x; npm test
no_proxy=x; npm test
path=.; npm test
fpath=./x; npm test
cdpath=/; npm test
for path in .; do npm test; done
for PATH in .; do npm test; done
unset PATH; npm test
read -r PATH < a.py; npm test
read -raPATH < a.py; npm test
read "$X" < a.py; npm test
printf -v PATH .; npm test
printf -vPATH .; npm test
printf "$X" . PATH; npm test
IFS=/; npm test
IFS=/ npm test
""".strip().splitlines()

ODD_VALUES = """
DEBUG='$(shell touch mark)' npm test
export DEBUG='$(shell touch mark)'; npm test
env DEBUG='$(shell touch mark)' npm test
CI="x; touch mark" npm test
CI=--config=x npm test
CI=$X npm test
CI+=x npm test
CI=(x) npm test
for CI in 1; do npm test; done
read CI < a.py; npm test
printf -v CI 1; npm test
LINES='path[$(touch mark)]' npm test
COLUMNS=x npm test
TERM=../x npm test
TZ=:/etc/hosts npm test
TZ=x/../y npm test
LC_ALL=zh_CN.GBK npm test
LANG=ja_JP.SJIS; npm test
LC_CTYPE=$X npm test
""".strip().splitlines()

HARMLESS = """
DEBUG=app:*,-x npm test
CI= npm test
TZ=America/New_York npm test
TERM=xterm-256color npm test
COLUMNS=80 npm test
LANG=de_DE.UTF-8 npm test
CI=1 npm test
NODE_ENV=test npm test
LC_ALL=C npm test
env CI=1 npm test
export CI=1; npm test
x=1; npm test
x=1; readonly y=2; echo "$x$y"; npm test
for f in a b; do npm test; done
x=$(date +%s); npm test
read -r line < a.py; npm test
IFS= read -r line < a.py; npm test
printf '%s' "$HOME"; npm test
""".strip().splitlines()


@pytest.mark.promise("G2", "P7")
@pytest.mark.finding("P8")
@pytest.mark.parametrize("command", [*REACHES_PROGRAMS, *MAY_BE_EXPORTED_ALREADY, *ODD_VALUES])
def test_a_variable_that_is_not_known_to_be_harmless_asks_although_a_rule_allows_the_command(scratch, command):
    decision = scratch.run(command, allow=TEST)
    assert (decision.verdict, decision.find_always()) == (Verdict.ASK, "")
    assert scratch.run(command, Mode.DONT_ASK, allow=TEST).verdict is Verdict.DENY
    assert scratch.run(command, allow=["Bash"]).verdict is Verdict.ALLOW


@pytest.mark.finding("P8")
@pytest.mark.parametrize("command", HARMLESS)
def test_a_harmless_variable_and_one_of_the_script_itself_do_not_ask(scratch, command):
    assert scratch.run(command, allow=TEST).verdict is Verdict.ALLOW


@pytest.mark.finding("P8")
@pytest.mark.parametrize("line", ["readonly token; echo $token", "local token; echo $token", "export token"])
def test_a_declaration_without_a_value_makes_no_variable_one_of_the_script(scratch, line):
    assert scratch.run(line).verdict is Verdict.ASK


SHELLS = [shell for shell in ("bash", "zsh") if shutil.which(shell)]


@pytest.mark.finding("P8")
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("line", [*REACHES_PROGRAMS, *MAY_BE_EXPORTED_ALREADY, *HARMLESS])
def test_what_is_allowed_hands_no_other_variable_to_a_program(own_scratch, shell, line):
    """The shell is the judge: a program sees the same environment, but for harmless variables."""
    if context_allows(own_scratch, line):
        seen = environment(own_scratch, shell, line)
        usual = environment(own_scratch, shell, "npm test")
        changed = {name for name in seen | usual if seen.get(name) != usual.get(name)}
        assert changed <= {"CI", "COLUMNS", "DEBUG", "LANG", "LC_ALL", "NODE_ENV", "TERM", "TZ", "_", "SHLVL"}


@pytest.mark.finding("P8")
def test_the_judge_would_notice_a_variable(own_scratch):
    assert environment(own_scratch, "bash", "foo=bar npm test")["foo"] == "bar"
    assert environment(own_scratch, "bash", "http_proxy=x; npm test")["http_proxy"] == "x"


@pytest.mark.finding("P8")
def test_make_runs_a_command_in_the_value_of_a_variable(own_scratch):
    """The reason why a harmless variable needs a plain value, also for an exact rule."""
    require("make")
    (own_scratch.project / "Makefile").write_text("test:\n\t@echo $(DEBUG)\n")
    line = "DEBUG='$(shell touch mark)' make test"
    subprocess.run(["bash", "-c", line], cwd=own_scratch.project, timeout=WAIT_S, check=True, capture_output=True)
    assert (own_scratch.project / "mark").exists()
    assert own_scratch.run(line, allow=["Bash(make test)"]).verdict is Verdict.ASK
    assert own_scratch.run("DEBUG=1 make test", allow=["Bash(make test)"]).verdict is Verdict.ALLOW


def context_allows(scratch, line):
    return scratch.run(line, allow=TEST).verdict is Verdict.ALLOW


def environment(scratch, shell, line):
    """The variables that the `npm` of the line gets."""
    programs = scratch.outside / "bin"
    programs.mkdir(exist_ok=True)
    (programs / "npm").write_text(f"#!/bin/sh\nexec /usr/bin/env -0 > {scratch.outside}/seen\n")
    (programs / "npm").chmod(0o755)
    env = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(scratch.outside), "http_proxy": "mine"}
    subprocess.run([shell, "-c", line], cwd=scratch.project, env=env, timeout=WAIT_S, check=False, capture_output=True)
    found = (scratch.outside / "seen").read_bytes().split(b"\0")
    return dict(entry.decode().split("=", 1) for entry in found if entry)
