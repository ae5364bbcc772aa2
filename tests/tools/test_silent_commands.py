"""Background commands that are silent because they wait for an input: each is recognised, and reported once."""

import asyncio
import sys

import pytest

from teamwright.agent.background_jobs import BackgroundJobs
from teamwright.agent.silent_jobs import SILENT_S, SilenceSettings
from teamwright.processes.input_waits import find_question, reads_terminal
from teamwright.processes.process_tree import list_processes
from teamwright.subagents.reports import job_wait_notice
from teamwright.tools.shell.bash import Bash
from tests.support.waits import WAIT_S, wait_until
from tests.tools.test_bash import call

pytestmark = pytest.mark.finding("S7")


class Clock:
    """Timers that fire when a test says so."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, delay_s, callback):
        self.timers.append(Timer(delay_s, callback))
        return self.timers[-1]

    def pending(self) -> list["Timer"]:
        return [timer for timer in self.timers if timer.callback is not None]

    def fire(self) -> None:
        [timer] = self.pending()
        callback, timer.callback = timer.callback, None
        callback()


class Timer:
    def __init__(self, delay_s, callback) -> None:
        self.delay_s, self.callback = delay_s, callback

    def cancel(self) -> None:
        self.callback = None


class Silent:
    """Jobs whose commands count as silent after `silent_s`, and what is reported of them."""

    def __init__(self, silent_s: float = 0) -> None:
        self.clock, self.told = Clock(), []
        self.jobs = BackgroundJobs(silence=SilenceSettings(silent_s, self.clock.call_later))
        self.jobs.follow_waits(lambda job, lines: self.told.append((job, lines)))

    async def start(self, ctx, command: str, prints: str):
        """Start a command, and wait until it has printed this."""
        await Bash(self.jobs).run(call(command, run_in_background=True), ctx)
        [job] = self.jobs.list()
        await asyncio.to_thread(wait_until, lambda: prints in job.file.read_text())
        return job


async def closing(silent: Silent) -> None:
    await silent.jobs.close()
    assert not silent.clock.pending(), "no timer outlives its command"


async def test_a_silent_command_behind_a_question_is_reported_once_with_its_last_lines(ctx):
    silent = Silent()
    job = await silent.start(ctx, "echo one; printf 'Overwrite it? [y/N] '; exec sleep 600", "[y/N]")
    assert not silent.told and not job.seems_to_wait
    silent.clock.fire()
    assert silent.told == [(job, "one\nOverwrite it? [y/N]")] and job.seems_to_wait and job.state == "running"
    assert not silent.clock.pending(), "it is not looked at again"
    notice = job_wait_notice(job, silent.told[0][1])
    assert (notice.status, notice.task_id) == ("", job.id) and "TaskStop" in notice.note
    await closing(silent)


async def test_a_command_that_works_in_silence_is_looked_at_again_only_after_more_output(ctx, work):
    silent = Silent()
    script = "echo working; until [ -e go ]; do :; done; printf 'Password: '; exec sleep 600"
    job = await silent.start(ctx, script, "working")
    silent.clock.fire()
    assert not silent.told and not silent.clock.pending()
    (work / "go").touch()
    await asyncio.to_thread(wait_until, lambda: "Password:" in job.file.read_text())
    silent.clock.fire()
    assert [lines for _, lines in silent.told] == ["working\nPassword:"]
    await closing(silent)


async def test_a_command_that_has_just_printed_is_not_silent(ctx):
    silent = Silent(SILENT_S)
    await silent.start(ctx, "printf 'Go on? (yes/no) '; exec sleep 600", "no)")
    silent.clock.fire()
    [timer] = silent.clock.pending()
    assert not silent.told and 0 < timer.delay_s <= SILENT_S
    await closing(silent)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process reads")
async def test_a_command_that_reads_from_a_terminal_is_reported_without_any_question(ctx):
    silent = Silent()
    program = "import pty; pty.spawn(['sh', '-c', 'echo begun; read word'])"
    job = await silent.start(ctx, f'exec {sys.executable} -c "{program}"', "begun")

    def below() -> list[int]:
        return [row.pid for row in list_processes() if row.parent == job.pid]

    await asyncio.to_thread(wait_until, lambda: reads_terminal(below()))
    silent.clock.fire()
    assert [lines for _, lines in silent.told] == ["begun"]
    await closing(silent)


async def test_a_command_that_ends_has_no_timer(ctx):
    silent = Silent()
    ended: asyncio.Queue = asyncio.Queue()
    silent.jobs.follow_ends(ended.put_nowait)
    await Bash(silent.jobs).run(call("printf 'really? '", run_in_background=True), ctx)
    async with asyncio.timeout(WAIT_S):
        await ended.get()
    assert not silent.clock.pending() and not silent.told
    await closing(silent)


@pytest.mark.parametrize(
    "end",
    [
        "Proceed ([y]/n)? ",
        "Overwrite? [y/N] ",
        "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
        "Do you want to continue? [Y/n]\n",
        "Enter passphrase for key '/k': ",
        "\x1b[1mPassword:\x1b[0m ",
        "[sudo] password for ann: ",
        "Username for 'https://example.org': ",
        "downloading 9 %\rPress any key to continue . . .",
        "Press ENTER to go on\n",
        "? Project name: (shop) ",
        "Select a number: ",
        "Need to install the following packages:\ncreate-app\nOk to proceed? ",
    ],
)
def test_a_question_is_recognised(end: str):
    assert find_question(end)


@pytest.mark.parametrize(
    "end",
    [
        "",
        "\n",
        "listening on port 80\n",
        "why does it fail?\nall passed\n",
        "3 tests failed. What now?\n",
        "password: checked\n",
        "building [12/40]",
        "(no/yes) is in the docs\nmore",
        "Error: enter the directory:\n",
    ],
)
def test_other_output_is_no_question(end: str):
    assert not find_question(end)
