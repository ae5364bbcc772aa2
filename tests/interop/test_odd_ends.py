"""Signals, full disks, odd files and all kinds of work, in teams with members of two programs."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys

import pytest

from teamwright import MemberChanged, Notice
from teamwright.protocol.ids import LEAD
from teamwright.testing.model_server_replies import Answer
from tests.crash.aims import Aim, words_of
from tests.crash.errands import SERVER
from tests.crash.strikes import ROOT
from tests.interop.our_member import Gate, call, letters, ours
from tests.interop.rig import a_crew, pid_of, rested, told_lead
from tests.interop.test_external_lead import IDLE, STOP, until
from tests.interop.test_started_external_member import started
from tests.support.waits import WAIT_S, wait_until
from tests.ui.program import told_results

__all__ = ["started"]

pytestmark = pytest.mark.slow

ALONE = {"do": "spawn", "name": "bob", "prompt": "Go."}
"""The step of a lead that puts bob on its roster; the test starts bob's process."""


# ── a member of ours under another program's lead ────────────────────────────────────────────────────────────────


@pytest.mark.promise("E8", "P1", "F02")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_ends_a_member_of_ours_and_a_start_with_the_same_flags_resumes_it(
    strangers, tmp_path, monkeypatch, number
):
    gate = Gate("never said")
    with ours(strangers, tmp_path, monkeypatch, "ready", gate, "resumed") as bob:
        steps = [ALONE | {"cwd": str(bob.work)}, IDLE, {"do": "send", "to": "bob", "text": "first message"}]
        second = {"do": "put", "to": "bob", "entry": by_hand("second message")}
        lead = bob.lead(*steps, until(tmp_path / "second"), second, IDLE, *STOP, until(tmp_path / "over"))
        wait_until(bob.entry)
        process = bob.start()
        gate.come()
        process.send_signal(number)
        assert process.wait(WAIT_S) == 0, bob.out.read_text()
        gate.go()
        (tmp_path / "second").touch()
        again = bob.start()
        assert again.wait(WAIT_S) == 0, bob.out.read_text()
        (tmp_path / "over").touch()
        bob.over(lead)
        for words in ("Go.", "first message", "second message"):
            assert bob.told().count(f"\n{words}\n") == 1, words


def by_hand(text):
    return {"from": LEAD, "text": text, "timestamp": "2099-11-20T22:53:56.642Z", "read": False}


@pytest.mark.promise("E8", "P1", "F21")
def test_a_member_of_ours_that_was_stopped_for_a_while_reads_each_message_once(strangers, tmp_path, monkeypatch):
    with ours(strangers, tmp_path, monkeypatch, "ready", "awake") as bob:
        sends = [{"do": "send", "to": "bob", "text": f"message {n}"} for n in (1, 2)]
        steps = [ALONE | {"cwd": str(bob.work)}, IDLE, until(tmp_path / "stopped"), *sends, IDLE, *STOP]
        lead = bob.lead(*steps)
        wait_until(bob.entry)
        process = bob.start()
        lead.until("result", do="hear")
        process.send_signal(signal.SIGSTOP)
        (tmp_path / "stopped").touch()
        wait_until(lambda: "message 2" in bob.inbox("bob").read_text())
        process.send_signal(signal.SIGCONT)
        assert process.wait(WAIT_S) == 0, bob.out.read_text()
        bob.over(lead)
        assert [bob.told().count(f"\nmessage {n}\n") for n in (1, 2)] == [1, 1]


@pytest.mark.promise("E8", "P1", "P5")
def test_a_member_of_ours_on_a_full_disk_says_so_and_reads_its_mail_after_a_new_start(newer, tmp_path, monkeypatch):
    with ours(newer, tmp_path, monkeypatch, "ready", "there is room") as bob:
        steps = [
            ALONE | {"cwd": str(bob.work)},
            IDLE,
            until(tmp_path / "full"),
            {"do": "send", "to": "bob", "text": "x1"},
        ]
        lead = bob.lead(*steps, until(tmp_path / "room"), IDLE, *STOP)
        wait_until(bob.entry)
        process = bob.start()
        lead.until("result", do="hear")
        transcript = bob.room.parents[1] / "agents" / "bob.jsonl"
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (transcript.stat().st_size, resource.RLIM_INFINITY))
        (tmp_path / "full").touch()
        assert process.wait(WAIT_S) == 1
        assert "disk-full" in bob.out.read_text() or "could not be written" in bob.out.read_text()
        again = bob.start()
        (tmp_path / "room").touch()
        assert again.wait(WAIT_S) == 0, bob.out.read_text()
        bob.over(lead)
        assert bob.told().count("\nx1\n") == 1


@pytest.mark.finding("D1")
@pytest.mark.promise("E8", "B1", "P2")
@pytest.mark.parametrize("odd", [{}, {"status": "completeD"}, {"owner": 5}], ids=json.dumps)
def test_an_odd_task_of_another_program_is_shown_and_the_next_one_is_done(older, tmp_path, monkeypatch, odd):
    done = call("TaskUpdate", taskId="2", status="completed")
    with ours(older, tmp_path, monkeypatch, "ready", call("TaskList"), done, "did it") as bob:
        create = [{"do": "create", "subject": "odd"}, until(tmp_path / "odd"), {"do": "create", "subject": "count"}]
        lead = bob.lead(*create, bob.spawn(), {"do": "see_task", "id": "2", "status": "completed"}, IDLE, *STOP)
        path = bob.root / "tasks" / bob.directory / "1.json"
        task = wait_until(lambda: bob.task("1"))
        path.write_text(json.dumps(task | odd if odd else {}))
        (tmp_path / "odd").touch()
        bob.over(lead)
        listed = [one["text"] for body in bob.server.bodies for one in told_results(body)]
        assert any("#1 [damaged]" in text for text in listed)
        assert bob.task("1") == (task | odd if odd else {}) and bob.task("2")["owner"] == "bob"


@pytest.mark.finding("N2")
@pytest.mark.promise("E8", "P5", "F04")
def test_a_member_of_ours_reads_mail_while_the_roster_of_its_lead_is_empty(newer, tmp_path, monkeypatch):
    with ours(newer, tmp_path, monkeypatch, "ready", "read") as bob:
        lead = bob.lead(bob.spawn(), IDLE, until(tmp_path / "over"), *STOP)
        lead.until("result", do="hear")
        roster, mail = bob.root / "teams" / bob.directory / "config.json", bob.inbox("bob")
        whole = roster.read_bytes()
        roster.write_bytes(b"")
        mail.write_text(json.dumps([*json.loads(mail.read_text()), by_hand("without a roster")]))
        wait_until(lambda: "without a roster" in bob.told())
        roster.write_bytes(whole)
        (tmp_path / "over").touch()
        bob.over(lead)
        assert bob.told().count("without a roster") == 1


@pytest.mark.promise("E8", "H1")
def test_a_member_of_ours_works_with_a_sub_agent_a_job_a_server_and_a_hook(newer, tmp_path, monkeypatch):
    server, noted, job, hooked = (tmp_path / name for name in ("server.py", "noted", "job", "hooked"))
    server.write_text(SERVER)
    parts = [
        call("Agent", description="look", prompt="Look around."),
        "I looked around.",
        call("Bash", command=f"echo done > {job}", description="a job", run_in_background=True),
        Answer(tools=[("McpCall", {"server": "notes", "tool": "note", "arguments": {"label": "from bob"}})]),
        call("Write", file_path=str(tmp_path / "work" / "made.txt"), content="made"),
    ]
    with ours(newer, tmp_path, monkeypatch, *parts) as bob:
        hook = {"matcher": "Write", "hooks": [{"type": "command", "command": f"cat > {hooked}"}]}
        notes = {"command": sys.executable, "args": ["-I", "-S", str(server), str(noted)]}
        allowed = ["Bash", "McpCall", "mcp__notes", "Write", "Agent"]
        bob.settings(mcpServers={"notes": notes}, hooks={"PostToolUse": [hook]}, permissions={"allow": allowed})
        bob.over(bob.lead(bob.spawn(), IDLE, *STOP))
        results = [one["text"] for body in bob.server.bodies for one in told_results(body)]
        assert any("I looked around." in text for text in results)
        assert noted.read_text() == "from bob\n", results
        assert json.loads(hooked.read_text())["tool_input"]["content"] == "made"
        wait_until(lambda: job.exists() and job.read_text() == "done\n")
        assert not [one for one in letters(bob.lead()) if "permission" in one["text"]]


# ── a member of another program under our lead ───────────────────────────────────────────────────────────────────


@pytest.fixture
def no_nohup():
    """A run of the tests below nohup ignores SIGHUP, and the programs that it starts would do so too."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.promise("E8", "D4", "D5")
@pytest.mark.usefixtures("no_nohup")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
async def test_a_member_of_another_program_that_a_signal_ends_is_noticed_and_its_task_goes_back(
    started, tmp_path, number
):
    turns = [{"when": "Begin.", "do": [{"do": "claim"}, {"do": "await", "file": str(tmp_path / "never")}]}]
    async with a_crew(tmp_path, started.settings({"zed": {"turns": turns}})) as (team, heard):
        crew = team.session.team
        task = await crew.tasks.create("ours", "do it", by=LEAD, metadata={"for": ["zed"]})
        await team.spawn("zed", "Begin.", command="other")
        await started.seen("zed", "result", do="claim")
        os.kill(pid_of(team, "zed"), number)
        await heard.one(MemberChanged, member="zed", state="failed")
        await heard.until(lambda: told_lead(heard))
        back = await crew.tasks.get(task.id)
        assert (back.owner, str(back.status), len(told_lead(heard))) == (None, "pending", 1)


@pytest.mark.promise("E8", "P1", "F21")
async def test_a_member_of_another_program_that_is_stopped_for_a_while_keeps_its_place_and_its_mail(started, tmp_path):
    turns = [{"when": "Go on.", "do": [{"do": "send", "to": LEAD, "text": "awake"}]}]
    async with a_crew(tmp_path, started.settings({"zed": {"turns": turns}})) as (team, heard):
        await team.spawn("zed", "Begin.", command="other")
        await rested(team, "zed")
        os.kill(pid_of(team, "zed"), signal.SIGSTOP)
        await team.send("zed", "Go on.")
        os.kill(pid_of(team, "zed"), signal.SIGCONT)
        await started.seen("zed", "told", "Go on.")
        await rested(team, "zed")
        assert sum("Go on." in line.get("text", "") for line in started.log("zed") if line["kind"] == "told") == 1
        assert not heard.of(MemberChanged, member="zed", state="failed")


@pytest.mark.promise("E8", "P1", "F29")
async def test_a_command_that_is_killed_while_it_writes_to_a_member_of_another_program_bars_nobody(started, tmp_path):
    async with a_crew(tmp_path, started.settings({"zed": {}})) as (team, heard):
        await team.spawn("zed", "Begin.", command="other")
        await rested(team, "zed")
        crew = team.session.team
        inbox = crew.mailbox("zed").path
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        for nth in range(1, 6):
            words = [*words_of(Aim("inboxes/zed", nth), str(crew.home.shared)), "send", "zed@crew", f"note {nth}."]
            options = {"cwd": tmp_path, "env": env, "timeout": WAIT_S, "capture_output": True, "text": True}
            ended = await asyncio.to_thread(subprocess.run, words, **options)
            assert ended.returncode in {0, -signal.SIGKILL}, ended.stderr
        await team.send("zed", "the last one")
        await started.seen("zed", "told", "the last one")
        told = "\n".join(line["text"] for line in started.log("zed") if line["kind"] == "told")
        assert all(told.count(f"note {nth}.") <= 1 for nth in range(1, 6)) and inbox.exists()
        assert not [one for one in heard.of(Notice) if "could not be" in one.text]
