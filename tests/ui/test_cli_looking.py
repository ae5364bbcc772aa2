"""The looking commands: what they print of real files, as text and as JSON; what they find of the machine."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pexpect
import pytest

import teamwright.ui.headless.run as headless_face
from teamwright.agent.conversation import Conversation
from teamwright.mail.inbox import inbox_for
from teamwright.models.model import Prefix
from teamwright.protocol.errors import UsageError
from teamwright.protocol.events import MemberChanged, MessageSent, RunEnded, TaskChanged, TaskInfo, ToolCalled
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.members import RosterMember
from teamwright.protocol.usage import Usage
from teamwright.storage.event_log import EventLog
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.team_records.snapshots import resolve_home
from teamwright.team_records.team_catalogue import NewTeam, Teams
from teamwright.team_records.team_state import LeadLease
from teamwright.ui.cli.main import main
from teamwright.ui.cli.reports import parse_moment
from tests.support import preloaded
from tests.support.waits import WAIT_S

KEY = "-".join(("key", "for", "tests", "abcdefgh", "wxyz"))
SESSION = "7f3a0000-0000-4000-8000-000000000001"


@pytest.fixture
def team(tmp_path: Path) -> str:
    """A team whose lead is gone: two tasks, two messages, a log with a call."""
    return asyncio.run(make_team(tmp_path))


async def make_team(tmp_path: Path) -> str:
    home = resolve_home(None)
    home.prepare()
    log = EventLog(home.session(tmp_path, SESSION) / "events.jsonl")
    task = TaskInfo(id="1", subject="find the leak", status="in_progress", owner="tess")
    log.emit(MemberChanged(member="tess", state="working", at=1000))
    log.emit(TaskChanged(member="tess", task=task, change="claimed", at=1001))
    log.emit(_call())
    log.emit(MessageSent(member="tess", to=LEAD, message_id="m", summary="found it", at=1003))
    log.emit(RunEnded(member=LEAD, stop="done", text="ok", usage=Usage(), at=1004))
    log.close()
    lead = LeadLease(SESSION, os.getpid(), "/nowhere/lease")
    new = NewTeam("leak hunt", lead, str(tmp_path), "m", 1, description="find it", log=str(log.path))
    directory = (await Teams(home).create(new)).directory
    await Roster(RosterFile(home, directory)).join(
        RosterMember("tess@leak hunt", "tess", model="m", backend_type="in-process")
    )
    tasks = TaskList(FileTaskStore(home.tasks(directory), home.guard))
    first = await tasks.create("find the leak", "d", by=LEAD)
    await tasks.create("fix the leak", "d", by=LEAD, blocked_by=[first.id])
    path = home.inbox(directory, "tess")
    inbox = inbox_for(path, home.guard(path), home.inbox_archive(directory, "tess"))
    read = await inbox.put(InboxEntry("team-lead", "find the leak, please\nand soon"))
    await inbox.mark_delivered([read])
    await inbox.put(InboxEntry("ben", "is it fixed?"))
    return directory


def _call() -> ToolCalled:
    return ToolCalled(
        member="tess",
        call="c1",
        tool="Bash",
        summary="git log",
        outcome="done",
        seconds=0.25,
        input={"command": "git log --oneline"},
        output="abc first\ndef second",
        at=1002,
    )


def shown(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0) -> str:
    assert main(list(args)) == code
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out
    return out


def loaded(capsys: pytest.CaptureFixture[str], *args: str, code: int = 0):
    return json.loads(shown(capsys, *args, "--json", code=code))


# ── teams, tasks, inbox ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("K11")
def test_teams_are_listed_with_state_and_what_is_open(team: str, capsys: pytest.CaptureFixture[str]):
    row = shown(capsys, "teams").splitlines()[1]
    assert re.fullmatch(r"leak hunt  open   2        2           1       \d+ h \d+ min ago  .*", row)
    found = loaded(capsys, "teams")
    assert [(one["name"], one["state"], len(one["tasks"])) for one in found] == [("leak hunt", "open", 2)]


def test_one_team_is_shown_with_members_and_tasks(team: str, capsys: pytest.CaptureFixture[str]):
    out = shown(capsys, "teams", "show", "leak hunt")
    assert f"session      {SESSION}" in out
    assert re.search(r"^tess +not running +general-purpose +1 +2 +m$", out, re.MULTILINE)
    assert re.search(r"^#2 +waits for #1 +now +fix the leak$", out, re.MULTILINE)
    assert loaded(capsys, "teams", "show", "leak-hunt")["members"][1]["messages"] == 2


@pytest.mark.finding("U11")
def test_tasks_without_a_name_are_those_of_the_team_of_this_directory(team: str, capsys: pytest.CaptureFixture[str]):
    assert main(["tasks", team]) == 0
    named = capsys.readouterr().out
    assert main(["tasks"]) == 0
    assert capsys.readouterr().out == named and "find the leak" in named
    assert main(["inbox", team]) == 2
    assert "teamwright inbox 'lead@leak hunt'" in capsys.readouterr().err


def test_tasks_are_listed_with_owner_and_blockers(team: str, capsys: pytest.CaptureFixture[str]):
    assert shown(capsys, "tasks", "leak hunt").splitlines() == [
        "task  status        owner  changed  subject",
        "#1    pending              now      find the leak",
        "#2    waits for #1         now      fix the leak",
    ]
    assert [one["waits_for"] for one in loaded(capsys, "tasks", "leak hunt")] == [[], ["1"]]


@pytest.mark.finding("S14")
def test_the_times_of_tasks_are_listed_in_any_form_that_a_program_writes(team: str, capsys: pytest.CaptureFixture[str]):
    first, second = sorted(resolve_home(None).tasks("leak-hunt").glob("[12].json"))
    times = ({"createdAt": 1706000000000, "updatedAt": 1706000001000}, {"updatedAt": "2024-01-23T08:53:20Z"})
    for file, own in zip((first, second), times, strict=True):
        task = {key: value for key, value in json.loads(file.read_text()).items() if not key.endswith("At")}
        file.write_text(json.dumps(task | own))
    listed = loaded(capsys, "tasks", "leak hunt")
    assert [(one["created_at"], one["updated_at"]) for one in listed] == [
        (1706000000000, 1706000001000),
        (0, 1706000000000),
    ]
    assert re.search(r"^#1 +pending +\d+ h +find the leak$", shown(capsys, "tasks", "leak hunt"), re.M)
    first.write_text(json.dumps(json.loads(first.read_text()) | {"createdAt": [], "updatedAt": -1}))
    assert loaded(capsys, "tasks", "leak hunt")[0]["updated_at"] == 0


def test_an_inbox_is_shown_whole_and_stays_unread(team: str, capsys: pytest.CaptureFixture[str]):
    out = shown(capsys, "inbox", "tess@leak hunt")
    assert re.search(r"lead\n    find the leak, please\n    and soon\n\n.*ben  unread\n    is it fixed\?\n", out)
    assert [one["sender"] for one in loaded(capsys, "inbox", "tess@leak hunt", "--unread")] == ["ben"]
    assert "is it fixed?" in shown(capsys, "inbox", "TESS@leak-hunt", "--unread")
    assert shown(capsys, "inbox", "lead@leak hunt") == "No mail.\n"


def test_mail_of_somebody_who_is_not_there_names_the_nearest(team: str, capsys: pytest.CaptureFixture[str]):
    assert main(["inbox", "tessa@leak hunt"]) == 2
    assert "did you mean tess?" in capsys.readouterr().err


def test_looking_at_a_home_that_is_not_there_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    home = tmp_path / "no home"
    for args in (["teams"], ["sessions"], ["sessions", "--all"], ["trust", "--show"], ["models"]):
        assert main(["--home", str(home), "-C", str(tmp_path), *args]) == 0
    assert main(["--home", str(home), "-C", str(tmp_path), "doctor"]) == 1
    assert not home.exists()


# ── log ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_log_is_a_line_an_event_with_its_time(team: str, capsys: pytest.CaptureFixture[str]):
    lines = shown(capsys, "log", "leak hunt").splitlines()
    assert [re.sub(r"^\d\d:\d\d:\d\d  ", "", line) for line in lines[:4]] == [
        "tess         working",
        "tess         ▸ #1 find the leak",
        "tess         Bash git log  [c1]",
        "tess         → lead: found it",
    ]
    assert "the run ended: done" in lines[4]


def test_a_log_as_json_is_a_line_an_event_with_its_number(team: str, capsys: pytest.CaptureFixture[str]):
    events = [json.loads(line) for line in shown(capsys, "log", "leak hunt", "--json").splitlines()]
    assert [event["n"] for event in events] == [1, 2, 3, 4, 5]
    assert events[2]["output"] == "abc first\ndef second"
    only = [json.loads(line) for line in shown(capsys, "log", "leak hunt", "--json", "--member", "lead").splitlines()]
    assert [event["type"] for event in only] == ["run_ended"]


def test_a_call_is_a_receipt_with_command_member_time_and_output(team: str, capsys: pytest.CaptureFixture[str]):
    out = shown(capsys, "log", "leak hunt", "--call", "c1")
    assert re.search(r"member   tess\n", out)
    assert re.search(r"time     \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, 0.25 s, done\n", out)
    assert out.endswith("\n  git log --oneline\n\nabc first\ndef second\n")
    assert loaded(capsys, "log", "leak hunt", "--call", "1")["complete"] is True
    assert main(["log", "leak hunt", "--call", "c2"]) == 2
    assert "c1 to c1" in capsys.readouterr().err


def test_the_log_of_a_deleted_team_is_still_found(team: str, capsys: pytest.CaptureFixture[str]):
    asyncio.run(Teams(resolve_home(None)).delete(team))
    assert shown(capsys, "teams") == "No team yet. Deleted ones: teamwright teams --archived\n"
    assert "archived" in shown(capsys, "teams", "--archived")
    assert "found it" in shown(capsys, "log", "leak hunt")


def test_times_of_since_are_spans_hours_and_dates():
    now = 1_800_000_000.0
    assert parse_moment("10m", now) == now - 600
    assert parse_moment("2h", now) == now - 7200
    assert parse_moment("2026-11-20T14:30:00+00:00") == 1795185000
    assert 0 <= now - parse_moment("0:00", now) < 86_400
    with pytest.raises(UsageError):
        parse_moment("yesterday", now)


def test_since_leaves_out_what_was_before(team: str, capsys: pytest.CaptureFixture[str]):
    assert shown(capsys, "log", "leak hunt", "--since", "10m") == "Nothing that fits.\n"


# ── doctor, models ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def local_server(monkeypatch: pytest.MonkeyPatch):
    """A model server on this machine, as Ollama answers."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = {"data": [{"id": "qwen3-coder:30b"}]} if self.path == "/v1/models" else {"models": []}
            raw = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{server.server_port}")
    yield server
    server.shutdown()
    thread.join(timeout=WAIT_S)
    server.server_close()


@pytest.mark.promise("K3")
def test_doctor_names_what_keeps_a_model_away_and_what_is_found(
    local_server: HTTPServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = " ".join(shown(capsys, "-C", str(tmp_path), "doctor", code=1).split())
    assert "✗ model no model to talk to" in out
    assert "ANTHROPIC_API_KEY" in out
    assert f"Ollama on 127.0.0.1:{local_server.server_port}: qwen3-coder:30b" in out
    assert "to use it: teamwright --model ollama/qwen3-coder:30b" in out


@pytest.mark.promise("K3", "K10")
def test_doctor_says_which_model_and_why_and_shows_four_characters_of_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    out = shown(capsys, "-C", str(tmp_path), "doctor")
    assert "anthropic/claude-sonnet" in out
    assert "nothing names one, so the default" in out
    assert f"ANTHROPIC_API_KEY …{KEY[-4:]}" in out
    assert KEY[:8] not in out
    resolve_home(None).prepare()
    resolve_home(None).settings.write_text('{"model": "opus"}')
    assert "settings.json" in shown(capsys, "-C", str(tmp_path), "doctor")
    found = loaded(capsys, "-C", str(tmp_path), "doctor", "--model", "haiku")
    model = next(one for one in found["findings"] if one["label"] == "model")
    assert (found["ok"], "claude-haiku" in model["value"], "--model" in model["value"]) == (True, True, True)


def test_doctor_reports_broken_settings_with_their_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    resolve_home(None).prepare()
    resolve_home(None).settings.write_text('{"model": 7}')
    found = loaded(capsys, "-C", str(tmp_path), "doctor", code=1)
    problem = next(one for one in found["findings"] if one["section"] == "settings")
    assert problem["verdict"] == "problem"
    assert "line 1" in problem["value"]


def test_doctor_says_that_a_home_can_be_read_by_others_or_not_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    resolve_home(None).prepare()
    resolve_home(None).own.chmod(0o755)
    assert "chmod 700" in shown(capsys, "-C", str(tmp_path), "doctor", code=1)
    (tmp_path / "file").write_text("")
    out = shown(capsys, "-C", str(tmp_path), "--home", str(tmp_path / "file" / "home"), "doctor", code=1)
    assert re.search(r"✗ home .*cannot be read", " ".join(out.split()))


def test_models_are_listed_with_prices_and_the_day_they_were_seen(capsys: pytest.CaptureFixture[str]):
    out = shown(capsys, "models")
    assert max(map(len, out.splitlines())) <= 80
    assert re.search(r"^claude-sonnet-\S+ +sonnet +[\d,]+k +[\d.]+ +[\d.]+ +catalogue$", out, re.MULTILINE)
    found = loaded(capsys, "models")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["seen"])
    rows = {row["id"]: row for row in found["providers"]}
    assert {"anthropic", "ollama", "openrouter", "openai", "google", "bedrock"} <= set(rows)
    assert {rows[name]["proof"] for name in ("openai", "google", "bedrock")} == {"by its documentation"}
    assert re.search(r"^openai/gpt-\S+ +[\d,]+k +[\d.]+ +[\d.]+ +catalogue$", out, re.MULTILINE)


def test_a_provider_is_asked_what_it_lists(local_server: HTTPServer, capsys: pytest.CaptureFixture[str]):
    lines = shown(capsys, "models", "ollama").splitlines()
    assert [line.split() for line in lines[1:]] == [["ollama/qwen3-coder:30b", "unknown", "0", "0"]]
    [row] = loaded(capsys, "models", "ollama")
    assert (row["name"], row["context_tokens"], row["usd_in"]) == ("ollama/qwen3-coder:30b", None, 0.0)
    assert main(["models", "olama"]) == 3
    assert re.search(
        r"is not a provider(.|\n)*did you mean ollama\?(.|\n)*no model was called", capsys.readouterr().err
    )


# ── trust ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def hostile(repo: Path) -> Path:
    """A repository that would allow itself everything."""
    (repo / ".teamwright").mkdir()
    (repo / ".teamwright" / "settings.json").write_text('{"permissions": {"allow": ["Bash(curl *)"]}}')
    return repo


@pytest.mark.promise("K1")
def test_trust_shows_gives_and_takes(hostile: Path, capsys: pytest.CaptureFixture[str]):
    here = ("-C", str(hostile), "trust")
    first = shown(capsys, *here)
    assert "not trusted" in first
    assert "? allow: Bash(curl *)" in first
    assert "teamwright trust --yes" in first
    assert loaded(capsys, *here)["trusted"] is False
    assert "Trusted." in shown(capsys, *here, "--yes")
    after = loaded(capsys, *here)
    assert (after["trusted"], [one["pending"] for one in after["entries"]]) == (True, [False])
    (hostile / ".teamwright" / "settings.json").write_text('{"permissions": {"allow": ["Bash(rm *)"]}}')
    assert "1 entry is new or changed" in shown(capsys, *here, "--show")
    assert "no longer" in shown(capsys, *here, "--remove")
    assert "was not trusted" in shown(capsys, *here, "--remove")


@pytest.mark.promise("K1")
@pytest.mark.slow
def test_trust_asks_on_a_terminal_and_no_is_the_default(hostile: Path):
    for answer, words in (("", "Nothing was changed"), ("y", "Trusted")):
        child = pexpect.spawn(
            sys.executable, ["-m", "teamwright", "-C", str(hostile), "trust"], timeout=WAIT_S, encoding="utf-8"
        )
        child.expect(r"curl")
        child.expect(r"Trust these entries")
        child.sendline(answer)
        child.expect(words)
        child.expect(pexpect.EOF)
        child.wait()
        assert child.exitstatus == 0
    done = preloaded.run([sys.executable, "-m", "teamwright", "-C", str(hostile), "trust", "--json"], timeout=WAIT_S)
    assert json.loads(done.stdout)["trusted"] is True


def test_a_repository_without_entries_has_nothing_to_trust(repo: Path, capsys: pytest.CaptureFixture[str]):
    out = shown(capsys, "-C", str(repo), "trust")
    assert "has no entries that could run" in out
    assert "--yes" not in out


# ── together ─────────────────────────────────────────────────────────────────────────────────────────────────

SCRIPT = """
[script]
name = "count"
[[agent.lead.turn]]
[[agent.lead.turn.call]]
name = "lines"
tool = "Bash"
input = { command = "seq 3000", description = "count" }
capture = '(?P<last>\\d+)\\s*\\Z'
[[agent.lead.turn]]
when.have = ["last"]
say = "{{last}} lines [{{call.lines}}]."
"""


@pytest.mark.promise("K11")
def test_a_run_leaves_a_session_a_log_and_a_receipt_that_is_whole(repo: Path, tmp_path: Path):
    (tmp_path / "script.toml").write_text(SCRIPT)

    def program(*args: str) -> str:
        whole = [sys.executable, "-m", "teamwright", "-C", str(repo), *args]
        done = preloaded.run(whole, text=True, timeout=WAIT_S, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
        return done.stdout

    model = f"scripted:{tmp_path / 'script.toml'}"
    assert program("-p", "count the lines", "--model", model, "--allowedTools", "Bash(seq *)") == "3000 lines [c1].\n"
    (session,) = json.loads(program("sessions", "--json"))
    assert (session["prompt"], session["pid"]) == ("count the lines", 0)
    assert "Bash seq 3000  [c1]" in program("log", session["id"][:8])
    receipt = json.loads(program("log", "--call", "c1", "--json"))
    assert receipt["complete"] is True
    assert receipt["output"].split() == [str(n) for n in range(1, 3001)]


@pytest.mark.promise("K8")
def test_a_team_is_gone_on_with_by_its_name(
    team: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    prefix = Prefix.build({"model": "m", "system": []})
    about = {"session": SESSION, "cwd": str(tmp_path)}
    Conversation.start(resolve_home(None).transcript(tmp_path, SESSION), prefix, about).close()
    seen: list[str | None] = []
    monkeypatch.setattr(headless_face, "run_headless", lambda invocation: seen.append(invocation.options.resume) or 0)
    for name in ("leak hunt", "leak-hunt", "7f3a"):
        assert main(["resume", name, "-p", "go on"]) == 0
    assert seen == [SESSION] * 3
    assert main(["resume", "leek", "-p", "go on"]) == 2
    assert "[unknown-session]" in capsys.readouterr().err


def test_json_on_a_terminal_steers_nothing(capsys):
    from teamwright.ui.cli.output import say_json

    nasty = "a\x1b[2J\x9b31mb\u202ec\x7fd"
    say_json({"what": nasty})
    out = capsys.readouterr().out
    assert not set(out) & set("\x1b\x9b\u202e\x7f")
    assert json.loads(out) == {"what": nasty}
