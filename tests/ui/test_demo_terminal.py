"""The demo at a real terminal: the panel below the lines, what becomes of it, and terminals that cannot have one."""

import re
import signal
import time

import pexpect
import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.preloaded_terminal import spawn
from tests.support.waits import WAIT_S
from tests.ui.demo_runs import PROGRAM, Stage
from tests.ui.histories import invented
from tests.ui.terminal_driver import CTRL_C, Screen

PANEL = re.compile("[┌┬┐│└┴┘]")


class Watcher:
    """Somebody at a terminal of this size who looks on; `texts` is the screen after each thing that was written."""

    def __init__(self, stage: Stage, *args: str, cwd, size=(40, 100), **env: str) -> None:
        environment = {**stage.environment, "TERM": "xterm-256color", **env}
        # At Ctrl-C a terminal discards what waits to be shown, even the second half of a character.
        options = {"cwd": str(cwd), "env": environment, "dimensions": size, "codec_errors": "replace"}
        self.child = spawn([*PROGRAM, "demo", *args], **options)
        self.child.delaybeforesend = None
        self.screen = Screen(*size)
        self.raw = ""
        self.texts: list[str] = []

    def sees(self, text: str) -> None:
        """Look on until the text is on the screen."""
        deadline = time.monotonic() + WAIT_S
        while text not in self.screen.text:
            assert self._read(deadline), f"{text!r} did not come:\n{self.screen.text}"

    def leaves(self) -> int:
        """Look on to the end; the exit code."""
        deadline = time.monotonic() + WAIT_S
        while self._read(deadline):
            pass
        assert self.child.flag_eof, f"it did not end:\n{self.screen.text}"
        self.child.close()
        return self.child.exitstatus

    @property
    def visible(self) -> list[str]:
        """The lines that are in the window now."""
        return ["".join(line).rstrip() for line in self.screen.lines]

    def _read(self, deadline: float) -> bool:
        try:
            came = self.child.read_nonblocking(65536, timeout=max(0.1, deadline - time.monotonic()))
        except (pexpect.EOF, pexpect.TIMEOUT):
            return False
        self.raw += came
        self.screen.feed(came)
        self.texts.append(self.screen.text)
        return True


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path / "stage")


@pytest.fixture
def place(tmp_path):
    return invented("python and go", 41, commits=30).write(tmp_path / "shown")


def said(text: str) -> list[str]:
    """The lines without times, which differ from run to run."""
    return [re.sub(r"^ +\d+\.\d ", "", line) for line in text.splitlines()]


def straight_panels(person: Watcher) -> list[str]:
    """The screens with a whole panel, each checked: one panel, straight, below everything else."""
    panels = [text for text in person.texts if "┌ members ─" in text and text.rstrip().endswith("┘")]
    for text in panels:
        lines = [line for line in text.splitlines() if PANEL.search(line)]
        assert {len(line) for line in lines} == {79}, text
        assert [line[1] for line in lines].count("┌") == 1, text
        assert text.splitlines()[-len(lines) :] == lines, text
    return panels


@pytest.mark.slow
@pytest.mark.promise("K11")
def test_a_terminal_gets_the_default_pace_and_a_panel_that_leaves_no_trace(stage, place):
    person = Watcher(stage, cwd=place)
    assert person.leaves() == 0
    assert person.screen.text.startswith("teamwright demo: scripted model, no key, no network, replies paced 150 ms\n")
    panels = straight_panels(person)
    assert len(panels) > 20
    assert any("● tester     working   #" in text for text in panels)
    assert any("✓1 ✓2" in text for text in panels)
    assert not PANEL.search(person.screen.text)
    assert "Read first  (rule" in person.screen.text
    assert max(map(len, person.screen.text.splitlines())) <= 80


@pytest.mark.slow
def test_the_lines_are_those_that_come_off_a_terminal(stage, place):
    person = Watcher(stage, "--pace", "0", cwd=place)
    assert person.leaves() == 0
    plain = stage.run("demo", "--pace", "0", cwd=place)
    assert plain.returncode == 0

    def steady(text):
        """What does not depend on who was faster: the plan, and the report without its receipts and counts."""
        lines = said(text)
        start = next(number for number, line in enumerate(lines) if line.startswith("── report"))
        end = next(number for number, line in enumerate(lines) if line.startswith("4 agents"))
        return lines[:12], [re.sub(r"\[c\d+\]", "", line).rstrip() for line in lines[start:end]]

    both = f"{person.screen.text}\n\n{plain.stdout}"
    assert steady(person.screen.text) == steady(plain.stdout), both


@pytest.mark.slow_after(1)
@pytest.mark.parametrize("size", [(40, 79), (7, 100), (3, 12)], ids=["narrow", "low", "tiny"])
def test_a_window_without_room_gets_the_lines_alone(size, stage, place):
    person = Watcher(stage, "--pace", "0", cwd=place, size=size)
    assert person.leaves() == 0
    assert "\x1b" not in person.raw
    assert not PANEL.search(person.raw)
    assert "Read first  (rule" in person.raw


@pytest.mark.slow
@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"TERM": ""}], ids=["dumb", "nameless"])
def test_a_terminal_whose_cursor_cannot_be_moved_gets_the_lines_alone(env, stage, place):
    person = Watcher(stage, "--pace", "0", cwd=place, **env)
    assert person.leaves() == 0
    assert "\x1b" not in person.raw
    assert not PANEL.search(person.raw)


@pytest.mark.promise("K11")
@pytest.mark.slow
def test_there_is_no_colour_at_all(stage, place):
    person = Watcher(stage, "--pace", "0", cwd=place, NO_COLOR="1")
    assert person.leaves() == 0
    assert set(re.findall(r"\x1b\[[?0-9;]*([A-Za-z])", person.raw)) == {"A", "J"}, "the panel moves, nothing shines"


@pytest.mark.slow
def test_a_window_that_changes_its_size_meanwhile_does_not_end_it(stage, place):
    person = Watcher(stage, "--pace", "20", cwd=place)
    person.sees("joins the team")
    person.child.setwinsize(40, 50)
    person.sees("✓ #1")
    person.child.setwinsize(50, 120)
    assert person.leaves() == 0
    assert "Read first  (rule" in person.raw


@pytest.mark.promise("F21")
@pytest.mark.slow
def test_ctrl_c_takes_the_panel_away_and_says_what_became_of_the_team(stage, place):
    person = Watcher(stage, cwd=place)
    person.sees("claims #3")
    assert straight_panels(person)
    person.child.send(CTRL_C)
    assert person.leaves() == 130
    assert not PANEL.search(person.screen.text)
    assert "teamwright: interrupted: every member has ended, nothing is left running" in person.screen.text
    assert stage.leftovers == []


@pytest.mark.promise("K10")
@pytest.mark.parametrize("typed", ["n\r", "\r", "\x04"], ids=["no", "enter", "end of input"])
def test_a_real_model_is_asked_about_and_no_is_the_default(typed, stage, place):
    person = Watcher(stage, "--model", "sonnet", cwd=place, ANTHROPIC_API_KEY="sk-test-0000000000000000")
    person.sees("costs at most 1.00 USD. Continue? [y/N]")
    person.child.send(typed)
    assert person.leaves() == 2
    assert "nothing was sent" in person.screen.text


def test_a_yes_starts_it(stage, place):
    with LoopbackModel.in_thread([Answer("Read README.md first.")]) as server:
        key = {"ANTHROPIC_API_KEY": "sk-test-0000000000000000", "ANTHROPIC_BASE_URL": server.url}
        person = Watcher(stage, "--model", "sonnet", cwd=place, **key)
        person.sees("Continue? [y/N]")
        assert server.requests == []
        person.child.send("y\r")
        assert person.leaves() == 0
    assert "teamwright demo: the model sonnet, for at most 1.00 USD" in person.screen.text
    assert "Read README.md first." in person.screen.text
    assert not PANEL.search(person.screen.text)


def test_ctrl_c_at_the_question_is_an_interrupt(stage, place):
    person = Watcher(stage, "--model", "sonnet", cwd=place)
    person.sees("Continue? [y/N]")
    person.child.kill(signal.SIGINT)
    assert person.leaves() == 130
    assert "Traceback" not in person.screen.text
