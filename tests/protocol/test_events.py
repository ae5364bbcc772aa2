"""Events to the log and back."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.protocol import events
from teamwright.protocol.event_json import from_json, to_json
from teamwright.protocol.task import IntegrationState
from teamwright.protocol.usage import Usage

GOLDEN = Path(__file__).parent.parent / "golden"
USAGE = Usage(input_tokens=3, output_tokens=5, cache_read=7, cache_write=11, requests=2, usd=0.25)
FILE = events.FileMark(name="tasks/crew/3.json", size=120, mtime_ns=1_700_000_000_123_456_789)
TASK = events.TaskInfo(id="3", subject="s", status="pending", owner="ann", blocked_by=("1", "2"))

LOGGED = [
    events.ToolCalled(
        member="ann",
        at=1.5,
        call="c1",
        tool="Bash",
        summary="ls",
        outcome="done",
        seconds=0.1,
        input={"command": "ls"},
        output="x",
    ),
    events.ModelCallEnded(member="ann", at=1.5, usage=USAGE, model="m", tools=2),
    events.ModelCallEnded(
        member="ann",
        at=1.5,
        usage=USAGE,
        model="m",
        tools=2,
        seconds=1.25,
        first_part_s=0.5,
        end="length",
        request_id="q",
        error="model-failed",
    ),
    events.TurnEnded(member="ann", at=1.5, stop="failed", text="t", detail="d"),
    events.MessageSent(member="ann", at=1.5, to="bob", message_id="u", summary="dm", wire="task_assignment"),
    events.MessageDelivered(member="bob", at=1.5, message_ids=("u", "v")),
    events.MessageSent(member="ann", at=1.5, to="bob", message_id="u", summary="dm", file=FILE),
    events.TaskChanged(member="ann", at=1.5, task=TASK, change="claimed"),
    events.TaskChanged(member="ann", at=1.5, task=TASK, change="claimed", file=FILE),
    events.IntegrationChanged(
        member="ann",
        at=1.5,
        entry="ann-3-b",
        state=IntegrationState.CONFLICT,
        onto="i",
        tip="b",
        task="3",
        paths=("a",),
    ),
    events.MemberChanged(
        member="ann", at=1.5, state="idle", detail="d", color="blue", model="m", incarnation=2, turn=7
    ),
    events.SubagentChanged(member="ann", at=1.5, agent="a1", state="killed", kind="Explore", description="d", name="n"),
    events.Compacted(member="ann", at=1.5, state="done", trigger="auto", before=9, after=3, detail="d"),
    events.ModeChanged(member="ann", at=1.5, mode="plan", by="user"),
    events.ModelChanged(member="ann", at=1.5, model="own/two", before="own/one", by="user"),
    events.Reloaded(member="team-lead", at=1.5, changed=("skills: + notes",), members=("ann",)),
    events.Progress(member="ann", at=1.5, doing="tool", what="Bash make", since=0.25, stalled=True),
    events.TeamChanged(member="team-lead", at=1.5, team="Crew", directory="crew", change="created"),
    events.HookEnded(
        member="ann", at=1.5, hook="PreToolUse", kind="command", what="lint", seconds=0.5, use="u", blocked=True
    ),
    events.SideCallEnded(member="ann", at=1.5, purpose="side question", question="q", text="t", by="user", detail="d"),
    events.SessionOpened(member="team-lead", at=1.5, pid=7, session="s"),
    events.RequestOpened(
        member="ann", at=1.5, request="r", kind="permission", tool="Bash", what="rm", input={"a": 1}, options=("y", "n")
    ),
    events.RequestClosed(member="ann", at=1.5, request="r", verdict="deny", by="deadline", reason="late"),
    events.SandboxRefused(member="ann", at=1.5, call="c1", policy="work", refused=("write ~/x",), allow="a rule"),
    events.LimitReached(member="ann", at=1.5, limit="money", detail="1 USD"),
    events.Notice(member="team-lead", at=1.5, text="t", level="warning"),
    events.RunEnded(member="team-lead", at=1.5, stop="done", text="t", usage=replace(USAGE, usd=None)),
]

OPENED = next(event for event in LOGGED if isinstance(event, events.RequestOpened))


def test_every_event_of_the_union_is_live_or_is_tried_here():
    kinds = {e.KIND for e in events.TeamEvent.__args__}
    assert kinds == {e.KIND for e in LOGGED} | {e.KIND for e in events.LIVE}


@pytest.mark.promise("P3")
@pytest.mark.parametrize("event", LOGGED, ids=lambda e: e.KIND)
def test_a_logged_event_survives_its_line(event):
    line = json.dumps(to_json(event))
    assert from_json(json.loads(line)) == event


@pytest.mark.parametrize("event", LOGGED, ids=lambda e: e.KIND)
def test_a_line_begins_with_type_time_and_member(event):
    data = to_json(event)
    assert list(data)[:3] == ["type", "at", "member"] and data["type"] == event.KIND
    assert "responder" not in data and set(data) - {"type"} <= set(event.__struct_fields__)


def test_live_events_and_events_of_a_later_version_are_none():
    assert from_json({"type": "text_delta", "member": "a", "text": "x"}) is None
    assert from_json({"type": "telepathy", "member": "a"}) is None and from_json({}) is None
    assert from_json({"type": "notice"}) is None


def test_unknown_keys_of_a_later_version_are_passed_over():
    data = to_json(LOGGED[-2]) | {"new": 1}
    assert from_json(data) == LOGGED[-2]


def test_a_log_of_version_1_is_read():
    *lines, last = [json.loads(line) for line in (GOLDEN / "events_v1.jsonl").read_text().splitlines()]
    assert {line["v"] for line in lines} == {1}
    read = {event.KIND: event for event in map(from_json, lines)}
    later = {"integration_changed", "side_call_ended", "hook_ended"}
    kinds = {event.KIND for event in LOGGED} - later
    assert set(read) == kinds and len({line["type"] for line in lines}) == len(kinds)
    call = read["model_call_ended"]
    assert (call.seconds, call.usage, call.tools) == (1.25, USAGE, 2)
    known = {event.KIND: event for event in LOGGED} | {"model_call_ended": call}
    assert read == {kind: known[kind] for kind in read}
    assert read["member_changed"].incarnation == 2
    assert last["type"] == "snapshot"


def test_a_task_and_an_integration_with_a_state_of_a_later_version_are_no_events():
    task = replace(TASK, integration=IntegrationState.QUEUED)
    changed = to_json(events.TaskChanged(member="ann", at=1.5, task=task, change="completed"))
    assert from_json(changed) is not None
    assert from_json(changed | {"task": changed["task"] | {"integration": "flown"}}) is None
    entry = to_json(next(event for event in LOGGED if isinstance(event, events.IntegrationChanged)))
    assert from_json(entry | {"state": "flown"}) is None


def test_unknown_keys_of_a_task_are_ignored_and_the_object_is_not_changed():
    changed = next(event for event in LOGGED if isinstance(event, events.TaskChanged))
    data = to_json(changed)
    data["task"] = {**data["task"], "blocked_by": ["1", "2"], "priority": "high"}
    line = json.dumps(data)
    assert from_json(data) == changed
    assert json.dumps(data) == line


@pytest.mark.parametrize("task", [None, "3", ["id"], {"id": "3"}, {"id": "3", "subject": "s"}])
def test_a_task_event_without_a_whole_task_is_no_event(task):
    assert from_json({"type": "task_changed", "at": 1.5, "member": "ann", "change": "claimed", "task": task}) is None


@pytest.mark.parametrize("ids", [None, 3])
def test_an_event_whose_list_is_no_list_is_no_event(ids):
    assert from_json({"type": "message_delivered", "at": 1.5, "member": "bob", "message_ids": ids}) is None


async def test_a_request_is_answered_through_its_responder_and_tells_who_was_first():
    given = []

    async def respond(request, answer):
        given.append((request, answer))
        return len(given) == 1

    opened = replace(OPENED, responder=respond)
    assert await opened.allow(always=True) is True and await opened.deny("no") is False
    assert [(r, a.verdict, a.always, a.text) for r, a in given] == [
        ("r", "allow", True, ""),
        ("r", "deny", False, "no"),
    ]
    assert await OPENED.answer("x") is False
