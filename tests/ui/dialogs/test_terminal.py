"""Dialogs at a real terminal: keys typed ahead, long and hostile commands, narrow and dumb terminals, big pastes."""

import os
import select
import signal

import pytest

from tests.support.waits import WAIT_S
from tests.ui.program import told_results
from tests.ui.terminal_driver import CTRL_D, ENTER
from tests.ui.test_terminal_session import all_told, at_terminal, bash, gate, told

__all__ = ["gate"]


def asks_at_the_gate(command: str):
    """A lead that waits at the gate when told `go`, then wants to run a command."""

    def play(body):
        if told(body).strip() == "go":
            return bash("cat gate")
        if len(told_results(body)) < 2:  # words that were typed meanwhile may have come with what the gate said
            return bash(command)
        return f"Done. {all_told(body).count('hidden words')}"

    return play


@pytest.mark.slow
@pytest.mark.promise("K5", "F44")
@pytest.mark.usefixtures("gate")
def test_keys_typed_before_the_dialog_was_there_answer_nothing(repo):
    with at_terminal(asks_at_the_gate("touch made"), repo) as (person, _):
        person.says("go")
        person.sees("Bash cat gate")
        with open(repo / "gate", "w") as pipe:  # this waits for the command: a stopped program would not start it
            os.kill(person.child.pid, signal.SIGSTOP)  # nothing is read while the person types ahead
            person.types("hidden words" + ENTER + "y" + ENTER + "y" + ENTER)
            pipe.write("open\n")
        os.kill(person.child.pid, signal.SIGCONT)
        person.sees("lead wants to use Bash", "touch made", "allow?")
        assert not (repo / "made").exists()
        person.says("n")
        person.sees("refused")
        person.sees("Done. ")
        assert not (repo / "made").exists()


@pytest.mark.promise("K5", "F44")
@pytest.mark.slow
def test_the_end_of_a_line_is_no_answer_and_the_line_is_given_back(repo, gate):
    # In the sandbox a further question would offer to allow such commands.
    with at_terminal(asks_at_the_gate("touch made"), repo, "--sandbox", "off") as (person, _):
        person.says("go")
        person.sees("Bash cat gate")
        person.types("hidden ")
        person.sees("> hidden")
        gate()
        person.sees("touch made", "allow?")
        person.says("y")
        person.sees("you were typing when this came")
        assert not (repo / "made").exists()
        person.says("y")
        person.sees("Done. 0", "> hidden")
        assert (repo / "made").exists()
        person.types("words" + ENTER)
        person.sees("Done. 1")


@pytest.mark.slow
@pytest.mark.promise("K5", "K11")
@pytest.mark.parametrize(("columns", "env"), [(80, {}), (40, {}), (40, {"NO_COLOR": "1"}), (60, {"TERM": "dumb"})])
def test_on_every_terminal_all_of_a_hostile_command_is_seen(repo, gate, columns, env):
    command = "echo '界界界' \x1b[2J\u202e; : " + "z" * 90 + "; touch made"
    with at_terminal(asks_at_the_gate(command), repo, size=(40, columns), **env) as (person, _):
        person.says("go") if "TERM" not in env else person.types("go\n")
        gate()
        person.sees("lead wants to use Bash", "allow?")
        text = person.screen.text.replace("\n", "").replace(" ", "")
        assert "界界界" in text and "\\x1b[2J\\u202e" in text and "z" * 90 in text and "touchmade" in text
        assert "rule" in text and "yyes" in text
        person.types("y" + ("\n" if "TERM" in env else ENTER))
        person.sees("Done.")
        assert (repo / "made").exists()


@pytest.mark.slow
@pytest.mark.promise("K5", "K8")
def test_a_megabyte_is_pasted_in_one_piece_and_nothing_of_it_answers_a_dialog(repo, gate):
    with at_terminal(asks_at_the_gate("touch made"), repo) as (person, server):
        person.says("go")
        person.sees("Bash cat gate")
        paste = "y\n" * 1_000 + "hidden words\n" + ("a long line of a paste\n" * 45_000)
        gate()
        person.sees("touch made", "allow?")
        person.says("n")
        person.sees("refused", "Done. 0")
        _pastes(person, paste)
        person.types(ENTER)
        person.sees("Done. 1")
        sent = [block for block in server.bodies[-1]["messages"][-1]["content"] if "hidden words" in block["text"]]
        assert sent[-1]["text"].count("\n") >= 46_000, "line feeds of a paste send nothing"
        assert not (repo / "made").exists()
        person.types(CTRL_D)
        assert person.leaves() == 0


def _pastes(person, text: str) -> None:
    """As a terminal pastes: in brackets. What is shown is read meanwhile, or both sides would wait for the other."""
    data, fd = f"\x1b[200~{text}\x1b[201~".encode(), person.child.child_fd
    os.set_blocking(fd, False)
    while data:
        readable, writable, _ = select.select([fd], [fd], [], WAIT_S)
        assert readable or writable, "it takes nothing more"
        if readable:
            os.read(fd, 65_536)
        if writable:
            data = data[os.write(fd, data[:1_024]) :]
    os.set_blocking(fd, True)


@pytest.mark.promise("K8", "F44")
@pytest.mark.parametrize("how", [signal.SIGHUP, "closed"])
@pytest.mark.slow_after(1)
def test_a_terminal_that_goes_at_a_dialog_says_neither_yes_nor_no_and_loses_nothing(repo, gate, own_home, how):
    with at_terminal(asks_at_the_gate("touch made"), repo) as (person, _):
        person.says("go")
        gate()
        person.sees("touch made", "allow?")
        if how == "closed":
            with open(os.devnull, "rb") as nothing:
                os.dup2(nothing.fileno(), person.child.child_fd)
            person.child.wait()
        else:
            person.child.kill(signal.SIGHUP)
            person.leaves()
        assert not (repo / "made").exists()
    [path] = (own_home / ".teamwright" / "projects").glob("*/*.jsonl")
    assert "touch made" in path.read_text() and path.read_bytes().endswith(b"\n")
