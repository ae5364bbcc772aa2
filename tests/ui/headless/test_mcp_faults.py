"""A server that cannot be used is named with its reason, and does not stop the run."""

import json
import sys

import pytest

from teamwright.mcp.json_rpc import last_words
from tests.ui.program import Program

pytestmark = pytest.mark.finding("3F10")

DIES = """
import sys
for n in range(9):
    print('  File "/very/long/path/to/site-packages/module_%d.py", line %d, in call' % (n, n), file=sys.stderr)
raise RuntimeError("THE CAUSE")
"""


@pytest.fixture
def run(tmp_path, repo):
    (tmp_path / "script.toml").write_text('[script]\nname = "s"\n[[agent."*".otherwise]]\nsay = "END"\n')
    program = Program(repo, tmp_path / "home")
    return lambda servers: program.run(
        *("-p", "go", "--model", f"scripted:{tmp_path / 'script.toml'}"),
        *("--mcp-config", json.dumps({"mcpServers": servers})),
    )


def test_the_last_line_of_a_server_that_dies_is_shown_whole(run):
    done = run({"dies": {"command": sys.executable, "args": ["-c", DIES]}})
    assert done.stdout == "END\n"
    [line] = [one for one in done.stderr.splitlines() if "its last output" in one]
    assert line.endswith("RuntimeError: THE CAUSE")
    assert len(last_words("x " * 1_000 + "end")) == 300


def test_an_entry_whose_variable_is_not_set_is_left_out_and_the_run_goes_on(run):
    done = run({"a": {"command": "${NOT_SET_ANYWHERE}"}})
    assert (done.returncode, done.stdout) == (0, "END\n"), done.stderr
    assert "the MCP server 'a' is left out: the variable NOT_SET_ANYWHERE is not set" in done.stderr
    assert run({"a": {"command": 3}}).returncode == 2
