"""A program that is forked from a loaded process is for its caller what a started one is."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.support import preloaded
from tests.support.leftovers import running_in
from tests.support.preloaded import COMMAND
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forked on Linux only")
SCRIPT = """
[[agent.lead.turn]]
say = "Wait."
[[agent.lead.turn.call]]
tool = "Bash"
input = { command = "echo $$ > pid; exec sleep 600", description = "wait" }
"""


@pytest.mark.parametrize("args", [["--version"], ["status", "--json"], ["stattus", "x"], ["-p", "hello"], ["trust"]])
@pytest.mark.slow_after(1)
def test_both_end_with_the_same_code_and_the_same_words(tmp_path, args):
    options = {"cwd": tmp_path, "text": True, "stdin": subprocess.DEVNULL, "timeout": WAIT_S}
    started = subprocess.run([*COMMAND, *args], capture_output=True, **options)
    forked = preloaded.run([*COMMAND, *args], **options)
    assert (forked.returncode, forked.stdout, forked.stderr) == (started.returncode, started.stdout, started.stderr)


def test_it_has_its_own_process_and_session_and_its_caller_learns_of_the_signal_that_ends_it(tmp_path):
    (tmp_path / "script.toml").write_text(SCRIPT)
    os.mkfifo(tmp_path / "pid")
    args = ["-p", "go", "--model", "scripted:script.toml", "--dangerously-skip-permissions"]
    process = preloaded.popen([*COMMAND, *args], cwd=tmp_path, start_new_session=True, stdin=subprocess.DEVNULL)
    assert isinstance(process, preloaded.Forked)
    assert int((tmp_path / "pid").read_text()) != process.pid
    assert process.poll() is None
    assert os.getsid(process.pid) == process.pid != os.getsid(0)
    process.kill()
    assert process.wait(WAIT_S) == -signal.SIGKILL
    for command in running_in(tmp_path):  # in a sandbox its own number is another one
        with suppress(ProcessLookupError):
            os.kill(command, signal.SIGKILL)


def test_what_python_reads_at_its_start_and_other_programs_are_started(tmp_path):
    for args, more in (
        ([sys.executable, "-c", "pass"], {}),
        ([*COMMAND, "--version"], {"env": {**os.environ, "PYTHONUTF8": "0"}}),
        ([*COMMAND, "--version"], {"preexec_fn": lambda: None}),
    ):
        with preloaded.popen(args, stdout=subprocess.DEVNULL, **more) as process:
            assert not isinstance(process, preloaded.Forked)
