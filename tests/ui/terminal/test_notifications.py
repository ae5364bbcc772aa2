"""Notifications: an absent person learns of a waiting request and of the end of the work, and of nothing unasked."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from teamwright.config.settings.settings import NotifySettings
from teamwright.session.notifications import Notification, body_of, is_ntfy
from teamwright.ui.terminal.keys import PRESENT_S, WindowFocus, signal_of, signal_sequence
from tests.support.waits import wait_until
from tests.ui.test_terminal_session import at_terminal, bash, told

FOCUS_OUT, FOCUS_IN = "\x1b[O", "\x1b[I"
ASKS = Notification("permission", "builder", "Bash touch made", "teamwright requests allow k7f3a", "1234")


class Receiver:
    """A web server on this machine that keeps the bodies it gets."""

    def __init__(self) -> None:
        bodies: list[str] = []
        self.bodies = bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> "Receiver":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def play(body):
    return bash("touch made") if told(body).strip() == "go" else "It is done."


@pytest.mark.promise("L2")
@pytest.mark.finding("U9")
@pytest.mark.slow
def test_an_absent_person_gets_requests_and_the_end_by_command_and_webhook(repo, own_home, tmp_path):
    received = tmp_path / "received"
    settings = own_home / ".teamwright" / "settings.json"
    settings.parent.mkdir(parents=True, exist_ok=True)
    with Receiver() as hook:
        notify = {"command": f"cat >> {received}", "webhook": hook.url}
        settings.write_text(json.dumps({"notify": notify}))
        with at_terminal(play, repo) as (person, _):
            person.says("hello")
            person.sees("It is done.", "\n>")
            assert not received.exists() and hook.bodies == [], "a person at the keyboard gets no notification"
            person.types(FOCUS_OUT)
            person.says("go")
            person.sees("allow?")
            wait_until(lambda: hook.bodies and received.exists() and received.read_text().endswith("\n"))
            asked = json.loads(hook.bodies[0])
            assert (asked["kind"], asked["who"], asked["what"]) == ("permission", "lead", "Bash touch made")
            assert asked["answer"].startswith("teamwright requests allow ")
            assert asked["answer"] in asked["text"]
            assert json.loads(received.read_text().splitlines()[0]) == asked
            person.says("y")
            person.sees("It is done.", "It is done.")
            wait_until(lambda: len(hook.bodies) == 2)
            assert json.loads(hook.bodies[1])["title"] == "the lead is done"
            person.types(FOCUS_IN)
            person.says("hello")
            person.sees("It is done.", "It is done.", "It is done.")
        assert len(hook.bodies) == 2
        assert "[I" not in person.screen.text and "[O" not in person.screen.text


@pytest.mark.promise("L2")
def test_a_repository_sets_no_command_and_no_webhook(repo, own_home, tmp_path):
    received = tmp_path / "received"
    local = repo / ".teamwright" / "settings.json"
    local.parent.mkdir()
    local.write_text(json.dumps({"notify": {"command": f"cat >> {received}", "webhook": "http://127.0.0.1:9/"}}))
    with at_terminal(play, repo, "--trust") as (person, _):
        person.says("hello")
        person.sees("It is done.")
        person.types(FOCUS_OUT)
        person.says("go")
        person.sees("allow?")
        person.says("y")
        person.sees("It is done.", "It is done.")
    assert not received.exists()
    assert "no notification was sent" not in person.screen.text


def test_a_terminal_without_reports_counts_a_person_as_present_for_a_while_after_a_key():
    now = [100.0]
    focus = WindowFocus(clock=lambda: now[0])
    assert not focus.is_present
    focus.note_key()
    assert focus.is_present
    now[0] += PRESENT_S
    assert not focus.is_present
    focus.note_focus(True)
    assert focus.is_present
    focus.note_focus(False)
    focus.note_key()
    assert not focus.is_present


@pytest.mark.parametrize(
    ("env", "signal"),
    [
        ({"TERM": "xterm-256color"}, "bell"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "osc9"),
        ({"TERM": "xterm-kitty"}, "osc9"),
        ({"TERM": "foot"}, "osc777"),
        ({"TERM": "tmux-256color", "TMUX": "/tmp/x", "TERM_PROGRAM": "iTerm.app"}, "bell"),
        ({"TERM": "dumb"}, ""),
    ],
)
def test_the_signal_fits_the_terminal(env, signal):
    assert signal_of("auto", env) == signal
    assert signal_of("off", env) == ""


def test_a_text_of_an_agent_cannot_end_the_sequence_of_a_signal():
    evil = Notification("question", "ada", "a;b\x07\x1b]0;title\x07c")
    for signal in ("osc9", "osc777"):
        sequence = signal_sequence(signal, evil)
        assert sequence.count("\x07") == 1 and sequence.count("\x1b") == 1 and sequence.endswith("\x07")
    assert signal_sequence("osc777", ASKS) == "\x1b]777;notify;teamwright;builder asks: permission: Bash touch made\x07"
    assert signal_sequence("bell", ASKS) == "\x07"


def test_the_body_fits_slack_and_ntfy():
    text = "builder asks: permission\nBash touch made\nteamwright requests allow k7f3a"
    assert body_of(ASKS)["text"] == ASKS.text == text
    assert is_ntfy(NotifySettings(webhook="https://ntfy.sh/mine"))
    assert is_ntfy(NotifySettings(webhook="https://example.org/mine", format="ntfy"))
    assert not is_ntfy(NotifySettings(webhook="https://hooks.slack.com/services/x"))
