"""The stand-in itself: its files are byte for byte what was seen of the other product, and its habits are there."""

import ast
import json
import os
import sys
import time
from pathlib import Path

import pytest

from tests.simulated_product.running import LEAD_PROGRAM, MEMBER, command

HERE = Path(__file__).parent
PROGRAM = ["disk", "mail_texts", "inbox", "roster", "tasks", "agent", "member", "lead"]


def entries(strangers, team, name):
    return json.loads((strangers.root / "teams" / team / "inboxes" / f"{name}.json").read_bytes())


def bodies(strangers, team, name):
    found = [entry["text"] for entry in entries(strangers, team, name)]
    return [json.loads(text) if text.startswith("{") else text for text in found]


def a_team(strangers, *members, name="demo"):
    """A team that somebody made by hand, with these members."""
    place = strangers.root / "teams" / name
    place.mkdir(parents=True)
    people = [{"agentId": f"{one}@{name}", "name": one} for one in ("team-lead", *members)]
    (place / "config.json").write_text(json.dumps({"name": name, "members": people}, indent=2))
    return place


def mail(place, name, *texts, **more):
    """Mail that a hand puts into an inbox."""
    path = place / "inboxes" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    there = json.loads(path.read_bytes()) if path.exists() else []
    stamp = {"timestamp": "2026-11-20T22:53:56.642Z"}
    new = [{"from": "team-lead", "text": text, **stamp, "read": False} | more for text in texts]
    draft = path.with_name(f"{name}.hand")
    draft.write_text(json.dumps([*there, *new], indent=2))
    os.rename(draft, path)
    return path


SHUTDOWN = json.dumps(
    {"type": "shutdown_request", "requestId": "shutdown-1@ann", "from": "team-lead", "timestamp": "x"}
)


def test_the_stand_in_imports_nothing_of_ours_and_runs_by_itself():
    reached = set()
    for name in PROGRAM:
        for node in ast.walk(ast.parse((HERE / f"{name}.py").read_text())):
            if isinstance(node, ast.ImportFrom):
                reached.add((node.module or ".").split(".")[0])
            if isinstance(node, ast.Import):
                reached |= {alias.name.split(".")[0] for alias in node.names}
    assert reached - set(sys.stdlib_module_names) == {"simulated_product"}


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_older_lead_writes_its_roster_as_it_was_seen(older):
    step = {"do": "team", "name": "My Team_1", "description": "a team", "agent_type": "boss"}
    assert older.lead(step, {"do": "spawn", "name": "alice", "prompt": "Wait.", "in_process": True}).ended() == 0
    raw = (older.root / "teams" / "my-team-1" / "config.json").read_text()
    config = json.loads(raw)
    lead, alice = config["members"]
    assert raw == (
        "{\n"
        '  "name": "My Team_1",\n'
        '  "description": "a team",\n'
        f'  "createdAt": {lead["joinedAt"]},\n'
        '  "leadAgentId": "team-lead@My Team_1",\n'
        '  "leadSessionId": "50101e6d-0000-4000-8000-000000000000",\n'
        '  "members": [\n'
        "    {\n"
        '      "agentId": "team-lead@My Team_1",\n'
        '      "name": "team-lead",\n'
        '      "agentType": "boss",\n'
        '      "model": "claude-opus-4-6",\n'
        f'      "joinedAt": {lead["joinedAt"]},\n'
        '      "tmuxPaneId": "",\n'
        f'      "cwd": "{os.getcwd()}",\n'
        '      "subscriptions": []\n'
        "    },\n"
        "    {\n"
        '      "agentId": "alice@My Team_1",\n'
        '      "name": "alice",\n'
        '      "agentType": "general-purpose",\n'
        '      "model": "claude-opus-4-6",\n'
        '      "prompt": "Wait.",\n'
        '      "color": "blue",\n'
        '      "planModeRequired": false,\n'
        f'      "joinedAt": {alice["joinedAt"]},\n'
        '      "tmuxPaneId": "in-process",\n'
        f'      "cwd": "{os.getcwd()}",\n'
        '      "subscriptions": [],\n'
        '      "backendType": "in-process"\n'
        "    }\n"
        "  ]\n"
        "}"
    )
    assert not (older.root / "teams" / "my-team-1" / "inboxes").exists()
    task = json.loads((older.root / "tasks" / "my-team-1" / "1.json").read_bytes())
    assert task["metadata"] == {"_internal": True} and task["status"] == "in_progress"


def test_a_newer_lead_has_its_own_team_from_the_start_and_takes_it_along_when_it_ends(newer, tmp_path):
    lead = newer.lead({"do": "create", "subject": "t"}, {"do": "await", "file": str(tmp_path / "end")})
    lead.until("result", do="create")
    place = newer.root / "teams" / "session-50101e6d"
    config = json.loads((place / "config.json").read_bytes())
    assert list(config) == ["name", "createdAt", "leadAgentId", "leadSessionId", "members", "leadProcess"]
    assert list(config["leadProcess"]) == ["pid", "pidSpace", "claimedAt", "procStart"]
    assert config["leadProcess"]["pid"] == lead.process.pid
    [entry] = config["members"]
    assert (entry["tmuxPaneId"], entry["backendType"], "model" in entry) == ("leader", "in-process", False)
    (tmp_path / "end").touch()
    assert lead.ended() == 0
    assert not place.exists() and (newer.root / "tasks" / "session-50101e6d" / "1.json").exists()


@pytest.mark.slow
def test_a_task_file_is_as_it_was_seen_and_a_first_key_stands_last_until_the_next_change(older):
    stale = older.root / "tasks" / "demo" / "7.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    lead = older.lead(
        {"do": "team", "name": "demo"},
        {
            "do": "create",
            "subject": "T",
            "description": "third",
            "activeForm": "Doing",
            "metadata": {"k": 1, "z": None},
        },
        {"do": "create", "subject": "U"},
        {"do": "update", "id": "8", "addBlockedBy": ["9"], "owner": "abe"},
        {"do": "list"},
    )
    lead.until("result", do="update", result="Updated task #8 owner, blockedBy")
    assert lead.until("result", do="list")["result"] == "#8 [pending] T (abe) [blocked by #9]\n#9 [pending] U"
    place = older.root / "tasks" / "demo"
    assert not stale.exists() and (place / ".highwatermark").read_text() == "7"
    assert (place / ".lock").read_bytes() == b"" and not (place / ".lock.lock").exists()
    raw = (place / "8.json").read_text()
    assert raw == (
        '{\n  "id": "8",\n  "subject": "T",\n  "description": "third",\n  "activeForm": "Doing",\n'
        '  "owner": "abe",\n  "status": "pending",\n  "blocks": [],\n  "blockedBy": [\n    "9"\n  ],\n'
        '  "metadata": {\n    "k": 1,\n    "z": null\n  }\n}'
    )
    (place / "8.json").write_text(json.dumps({**json.loads(raw), "id": "3", "theirs": 1}))
    gone = older.lead({"do": "team", "name": "other"})
    gone.ended()
    member = older.member(
        "ann", "demo", {"turns": [{"do": [{"do": "claim"}, {"do": "update", "id": "8", "owner": ""}]}]}
    )
    mail(a_team(older, "ann", name="x").parent / "demo", "ann", "Go.")
    member.until("idle")
    assert list(json.loads((place / "9.json").read_bytes()))[-1] == "owner"
    eighth = json.loads((place / "8.json").read_bytes())
    assert eighth["id"] == "8" and "theirs" not in eighth and eighth["owner"] == ""


def test_mail_of_the_older_format_is_as_it_was_seen(older, tmp_path):
    place = a_team(older, "ann", "bob")
    path = mail(place, "ann", "Go.")
    script = {
        "turns": [
            {"when": "Go.", "do": [{"do": "send", "to": "bob", "text": "hi", "summary": "a greeting"}]},
            {"when": "shutdown_request", "do": [{"do": "refuse", "reason": "busy now"}]},
        ]
    }
    ann = older.member("ann", "demo", script)
    ann.until("idle")
    first = json.loads(path.read_bytes())
    assert first == [{"from": "team-lead", "text": "Go.", "timestamp": first[0]["timestamp"], "read": True}]
    assert path.read_text() == json.dumps(first, indent=2)
    [hi] = entries(older, "demo", "bob")
    assert list(hi) == ["from", "text", "summary", "timestamp", "color", "read"]
    assert (hi["from"], hi["summary"], hi["color"], hi["read"]) == ("ann", "a greeting", "blue", False)
    mail(place, "ann", SHUTDOWN)
    ann.until("idle")
    mail(place, "ann", SHUTDOWN)
    assert ann.ended() == 0
    first_idle, refused, _, agreed = bodies(older, "demo", "team-lead")
    assert list(first_idle) == ["type", "from", "timestamp", "idleReason", "summary"]
    assert first_idle["summary"] == "[to bob] a greeting"
    assert list(refused) == ["type", "requestId", "from", "reason", "timestamp"]
    assert list(agreed) == ["type", "requestId", "from", "timestamp", "paneId", "backendType"]
    assert all(list(e) == ["from", "text", "timestamp", "color", "read"] for e in entries(older, "demo", "team-lead"))
    assert "ann" in (place / "config.json").read_text()


def test_mail_of_the_newer_format_is_as_it_was_seen_and_what_was_read_is_gone(newer):
    place = a_team(newer, "ann", "bob")
    path = mail(place, "ann", "Go.")
    do = [{"do": "send", "to": "bob", "text": "hi"}, {"do": "say", "text": "all done"}]
    newer.member("ann", "demo", {"turns": [{"do": do}]}).until("idle")
    assert path.read_text() == "[]"
    assert not list(path.parent.glob("*.tmp.*"))
    [hi] = entries(newer, "demo", "bob")
    assert list(hi) == ["from", "text", "summary", "timestamp", "color", "msgV", "msg_id", "type", "read"]
    assert (hi["msgV"], hi["type"], hi["summary"]) == (1, "message", "hi")
    [idle] = bodies(newer, "demo", "team-lead")
    assert list(idle) == ["type", "from", "timestamp", "idleReason", "summary", "result"]
    assert idle["result"] == "all done"


def test_a_newer_lead_signs_and_what_is_not_signed_is_marked_where_a_key_is_known(newer):
    place = a_team(newer, "ann")
    mail(place, "ann", 'a "<b>"', summary='"<s>"')
    ann = newer.member("ann", "demo", {}, "--lead-verify-key", "1.x")
    text = ann.until("told")["text"]
    assert text.startswith(
        '<teammate-message teammate_id="team-lead" summary="&quot;&lt;s&gt;&quot;" verified="false">'
    )
    assert '\na "<b>"\n' in text
    lead = newer.lead({"do": "spawn", "name": "bob", "prompt": "Go."}, {"do": "await", "file": "/nonexistent"})
    lead.until("result", do="spawn")
    signed = newer.root / "teams" / "session-50101e6d" / "inboxes" / "bob.json"
    [entry] = json.loads(signed.read_bytes())
    assert list(entry)[-2:] == ["read", "lead_sig"] and len(entry["lead_sig"]) == 86


def test_mail_without_a_time_is_told_by_the_older_and_dropped_in_silence_by_the_newer(strangers):
    place = a_team(strangers, "ann")
    path = mail(place, "ann", "first")
    whole = json.loads(path.read_bytes())
    del whole[0]["timestamp"]
    path.write_text(
        json.dumps([*whole, {"from": "zed", "text": "<b>", "timestamp": "x"}, {"text": "who", "timestamp": "y"}])
    )
    text = strangers.member("ann", "demo").until("told")["text"]
    assert ("first" in text) == (strangers.format == "2.1.41")
    assert '<teammate-message teammate_id="zed">\n<b>\n</teammate-message>\n\n' in text
    assert '<teammate-message teammate_id="undefined">\nwho\n</teammate-message>' in text


# ── habits ───────────────────────────────────────────────────────────────────────────────────────────────────────


def gated(tmp_path, file, at, *then):
    """A turn that stops at the next write of that file until `go` is there."""
    return {"turns": [{"do": [{"do": "gate", "file": file, "at": at, "until": str(tmp_path / "go")}, *then]}]}


def test_while_it_writes_a_reader_sees_an_empty_file(older, tmp_path):
    place = a_team(older, "ann", "bob")
    mail(place, "ann", "Go.")
    ann = older.member("ann", "demo", gated(tmp_path, "config.json", "cut"))
    ann.until("gate", file="config.json", at="cut")
    assert (place / "config.json").read_bytes() == b""
    (tmp_path / "go").touch()
    ann.until("idle")
    assert json.loads((place / "config.json").read_bytes())["members"][1]["isActive"] is False


def test_an_older_member_overwrites_what_others_put_on_the_roster_meanwhile_and_a_newer_holds_a_lock(
    strangers, tmp_path
):
    place = a_team(strangers, "ann")
    mail(place, "ann", "Go.")
    ann = strangers.member("ann", "demo", gated(tmp_path, "config.json", "read"))
    ann.until("gate")
    locked = (place / "config.json.lock").is_dir()
    a_team(strangers, "ann", "new", name="beside")
    os.replace(strangers.root / "teams" / "beside" / "config.json", place / "config.json")
    (tmp_path / "go").touch()
    ann.until("idle")
    assert locked == (strangers.format != "2.1.41")
    assert "new" not in (place / "config.json").read_text()


def test_a_held_lock_loses_the_message_with_success_or_is_an_error_after_a_while(strangers):
    place = a_team(strangers, "ann", "bob")
    mail(place, "ann", "Go.")
    lock = place / "inboxes" / "bob.json.lock"
    lock.mkdir()
    ann = strangers.member(
        "ann", "demo", {"turns": [{"do": [{"do": "send", "to": "bob", "text": "hi", "summary": "s"}]}]}
    )
    result = ann.until("result")["result"]
    assert result["success"] == (strangers.format == "2.1.41")
    assert entries(strangers, "demo", "bob") == [] and lock.is_dir()


@pytest.mark.slow_after(1)
def test_the_older_does_not_wait_to_make_a_task_and_the_newer_does_a_little(strangers):
    place = a_team(strangers, "ann")
    mail(place, "ann", "Go.")
    lock = strangers.root / "tasks" / "demo" / ".lock.lock"
    lock.mkdir(parents=True)
    ann = strangers.member(
        "ann",
        "demo",
        {"turns": [{"do": [{"do": "create", "subject": "t"}]}, {"do": [{"do": "create", "subject": "u"}]}]},
    )
    assert ann.until("result")["result"] == {"error": "Lock file is already being held"}
    os.utime(lock, (time.time() - 11, time.time() - 11))
    mail(place, "ann", "Again.")
    assert ann.until("result")["result"] == "Task #1 created successfully: u"
    assert not lock.exists()


def test_with_its_lock_held_an_older_reader_is_told_the_same_again_and_again(older):
    place = a_team(older, "ann")
    lock = mail(place, "ann", "Go.").with_name("ann.json.lock")
    lock.mkdir()
    ann = older.member("ann", "demo")
    for _ in range(3):
        assert "Go." in ann.until("told")["text"]
    assert json.loads((place / "inboxes" / "ann.json").read_bytes())[0]["read"] is False


@pytest.mark.parametrize(("there", "left"), [("", ["hi"]), ('[{"from": "x", "te', ["hi"]), ("{}", {})])
@pytest.mark.slow_after(1)
def test_a_sender_that_meets_a_cut_inbox_replaces_it_and_leaves_an_object_alone(older, there, left):
    place = a_team(older, "ann", "bob")
    mail(place, "ann", "Go.")
    (place / "inboxes" / "bob.json").write_text(there)
    ann = older.member("ann", "demo", {"turns": [{"do": [{"do": "send", "to": "bob", "text": "hi", "summary": "s"}]}]})
    assert ann.until("result")["result"]["success"] is True
    found = entries(older, "demo", "bob")
    assert (found if isinstance(found, dict) else [one["text"] for one in found]) == left


def test_a_reader_leaves_a_broken_inbox_alone_until_it_is_whole(strangers, tmp_path):
    place = a_team(strangers, "ann")
    path = mail(place, "ann", "Go.")
    ann = strangers.member("ann", "demo", gated(tmp_path, "config.json", "read"))
    ann.until("gate")
    path.write_text('[{"from"')
    (tmp_path / "go").touch()
    ann.until("idle")  # it looked at its inbox behind the action, and before this
    assert path.read_text() == '[{"from"'
    path.unlink()
    mail(place, "ann", "second")
    assert "second" in ann.until("told")["text"]


# ── a team of strangers ──────────────────────────────────────────────────────────────────────────────────────────


def test_lead_and_member_of_one_format_work_together_from_the_prompt_to_the_end(strangers, tmp_path):
    """Tasks, a permission with another input; and the lead takes off whom it started itself.

    The older format loses mail that meets a lock: here each waits until the other is done.
    """
    made, script = tmp_path / "made", tmp_path / "member.json"
    write = {"do": "tool", "tool": "Write", "input": {"file_path": str(made), "content": "one"}}
    do = [write, write, {"do": "complete", "id": "1"}]
    script.write_text(json.dumps({"turns": [{"when": "Work.", "do": do}]}))
    own = ["env", f"STRANGER_SCRIPT={script}", f"STRANGER_LOG={tmp_path}/{{name}}.log"]
    updates = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
    answer = {"input": {"file_path": str(made), "content": "two"}, "updates": updates}
    steps = [{"do": "team", "name": "demo"}] if strangers.format == "2.1.41" else []
    lead = strangers.lead(
        *steps,
        {"do": "create", "subject": "job"},
        {"do": "spawn", "name": "ann", "prompt": "Work.", "command": [*own, *command(MEMBER, strangers.format, None)]},
        {"do": "hear", "words": "permission_request", "sender": "ann"},
        {"do": "answer_permission", "name": "ann", **answer},
        {"do": "see_task", "id": "1", "status": "completed"},
        {"do": "hear", "words": "idle_notification", "sender": "ann"},
        {"do": "see_member", "name": "ann", "isActive": False},
        {"do": "stop", "name": "ann", "reason": "over"},
        {"do": "hear", "words": "shutdown_approved"},
        {"do": "see_member", "name": "ann", "gone": True},
        {"do": "delete"},
    )
    assert lead.ended() == 0
    assert lead.until("kill-pane")["pane"] == "%1"
    assert lead.until("result", do="delete")["result"]["success"] is True
    log = [json.loads(line) for line in (tmp_path / "ann.log").read_text().splitlines()]
    ran = [one["result"]["ran"]["content"] for one in log if one.get("do") == "tool"]
    assert ran == ["two", "one"]  # the first with the input of the answer, the second without being asked
    assert [one["kind"] for one in log].count("asked") == 1


@pytest.mark.slow_after(1)
def test_a_plan_is_said_yes_to_at_once_and_a_member_that_nobody_started_stays_on_the_roster(strangers, tmp_path):
    """Its lead runs no process of it: on its approval the older lead takes nothing off, and may not delete its team."""
    older = strangers.format == "2.1.41"
    first, second, third = (str(tmp_path / name) for name in ("planned", "approved", "gone"))
    steps = [{"do": "team", "name": "demo"}] if older else [{"do": "spawn", "name": "own", "prompt": "x"}]
    lead = strangers.lead(
        *steps,
        {"do": "see_member", "name": "zed"},
        {"do": "send", "to": "zed", "text": "Plan.", "summary": "s"},
        {"do": "await", "file": first},
        {"do": "hear", "words": "plan_approval_request"},
        {"do": "await", "file": second},
        {"do": "stop", "name": "zed"},
        {"do": "await", "file": third},
        {"do": "lead_until", "file": third},
        {"do": "delete"},
        mode="acceptEdits",
    )
    team = "demo" if older else "session-50101e6d"
    path = strangers.root / "teams" / team / "config.json"
    lead.until("result", do=steps[-1]["do"])
    config = json.loads(path.read_bytes())
    config["members"].append({"agentId": f"zed@{team}", "name": "zed"})
    (path.parent / "hand").write_text(json.dumps(config))
    os.replace(path.parent / "hand", path)
    lead.until("result", do="send")
    rule = {"when": "Plan.", "do": [{"do": "plan", "plan": "# P"}]}
    zed = strangers.member("zed", team, {"turns": [rule]}, "--plan-mode-required")
    assert zed.until("start")["mode"] == "plan"
    zed.until("idle")
    Path(first).touch()
    assert zed.until("mode")["mode"] == "acceptEdits"
    zed.until("idle")
    Path(second).touch()
    assert zed.ended() == 0
    Path(third).touch()
    assert lead.ended() == 0
    refused = lead.until("result", do="delete")["result"]
    assert refused["success"] is False and "zed" in refused["message"]
    if older:
        assert "zed" in path.read_text()


def test_a_flag_that_the_other_product_does_not_know_ends_it(strangers):
    assert strangers.member("ann", "demo", {}, "--not-a-flag", "x").ended() == 2
    assert LEAD_PROGRAM.is_file()


def test_a_start_may_be_slow_or_fail_with_words_and_each_member_has_a_script_of_its_own(strangers, tmp_path, capfd):
    place = a_team(strangers, "ann", "bob")
    path = mail(place, "ann", "Go.")
    members = {"ann": {"start": {"await": str(tmp_path / "go")}}, "bob": {"start": {"exit": 3, "stderr": "no key"}}}
    ann, bob = (strangers.member(name, "demo", {"members": members}) for name in ("ann", "bob"))
    assert bob.ended() == 3 and "no key" in capfd.readouterr().err
    ann.until("start")
    assert json.loads(path.read_bytes())[0]["read"] is False
    (tmp_path / "go").touch()
    ann.until("idle")
