"""The file in which hooks set variables for later commands is read as assignments, and nothing in it runs."""

import os
import stat
import subprocess

import pytest

from teamwright.hooks.session_variables import MAX_FILE, SessionVariables, read_assignments
from teamwright.session.wiring.session_variables import variable_refusal

pytestmark = pytest.mark.finding("S5")

PLAIN = r"""
# a comment, and an empty line

export STAGE=test
PLACE='a b
c' QUOTED="q\"\$z \x" # two of them
declare -x FROM_BASH="e f"; ADDRESS=http://host/a:b#c
JOINED=a\ b'c'"d"
LONG=a\
b
EMPTY=
LAST="ü"
"""


def read(text: str) -> dict[str, str]:
    return {found.name: found.value for found in read_assignments(text)}


def test_assignments_have_the_values_that_a_shell_would_give_them():
    found = read(PLAIN)
    names = ["STAGE", "PLACE", "QUOTED", "FROM_BASH", "ADDRESS", "JOINED", "LONG", "EMPTY", "LAST"]
    assert list(found) == names
    shown = PLAIN + "".join(f'printf "%s\\0" "${name}"\n' for name in names)
    done = subprocess.run(["bash", "-c", shown], capture_output=True, text=True, check=True)
    assert dict(zip(names, done.stdout.split("\0"), strict=False)) == found


@pytest.mark.parametrize(
    "line",
    [
        *("A=$HOME", 'A="$(id)"', "A=`id`", "A=1 id", "id", "export A", "A=~/x", "A=*", "A=1&", "A=1;b|c", "A='open"),
        *("export -n A=1", "A=<(id)", "A+=1", "A[0]=1", "eval A=1", "A=$'x'", "source x", "A=1)"),
    ],
)
def test_a_line_that_a_shell_would_have_to_run_is_left_out_and_the_next_one_is_read(line):
    found = [(one.line, one.name) for one in read_assignments(f"B=1\n{line}\nC=3\n")]
    assert found[0] == (1, "B") and (2, "") in found and found[-1] == (3, "C")


REFUSED = (
    *("PATH", "GIT_DIR", "GIT_SSH_COMMAND", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES", "BASH_ENV", "ENV", "SHELLOPTS"),
    *("PS4", "IFS", "PYTHONPATH", "NODE_OPTIONS", "CDPATH", "HOME", "XDG_CONFIG_HOME", "TEAMWRIGHT_HOME", "PAGER"),
    *("ANTHROPIC_BASE_URL", "HTTPS_PROXY", "https_proxy", "API_TOKEN", "USER", "TERM", "LC_ALL", "LANG", "RANDOM"),
    *("PWD", "OLDPWD", "path", "GLOBIGNORE", "BASH_FUNC_ls%%", "JAVA_TOOL_OPTIONS", "MY_EDITOR", "UID"),
)


def test_variables_that_move_programs_or_a_verdict_are_refused_and_others_are_not():
    assert [name for name in REFUSED if not variable_refusal(name, "a-value-of-it")] == []
    usual = ("NODE_ENV", "RAILS_ENV", "STAGE", "CI", "TZ", "VIRTUAL_ENV", "DEBUG", "foo")
    assert [name for name in usual if variable_refusal(name, "a-value-of-it")] == []
    assert variable_refusal("PLAIN", "sk-ant-api03-" + "a1" * 20)


def test_the_file_is_private_and_keeps_what_is_used_when_it_is_prepared_again(tmp_path):
    variables = SessionVariables(tmp_path / "session-env" / "one" / "variables.sh", variable_refusal)
    path = variables.prepare()
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    path.write_text("A=1\nA='two words'\nPATH=/tmp\nid\n")
    assert variables.values() == {"A": "two words"}
    [refused, unread] = variables.problems()
    assert f"{path}, line 3: PATH is not set" in refused and f"{path}, line 4 is not used" in unread
    assert variables.prepare().read_text() == "export A='two words'\n" and not variables.problems()
    assert SessionVariables(path, variable_refusal).values() == {"A": "two words"}, "another process"


def test_a_link_and_a_file_that_is_too_long_are_not_read_and_are_replaced(tmp_path):
    variables = SessionVariables(tmp_path / "one" / "variables.sh")
    path = variables.prepare()
    (tmp_path / "other").write_text("A=1\n")
    path.unlink()
    path.symlink_to(tmp_path / "other")
    assert not variables.values() and "a link is not followed" in variables.problems()[0]
    assert variables.prepare() == path and not path.is_symlink()
    path.write_text("A=" + "1" * MAX_FILE)
    assert not variables.values() and variables.problems()
    path.write_text("A=1\n")
    os.rename(tmp_path / "one", tmp_path / "moved")
    (tmp_path / "one").symlink_to("moved")
    assert not SessionVariables(path).values()
    with pytest.raises(OSError, match="is a link"):
        variables.prepare()
