"""What each event tells a hook: golden files, one an event. `UPDATE_GOLDEN=1` writes them anew: then look at them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from teamwright.hooks import payload
from teamwright.hooks.hook_definitions import EVENTS
from teamwright.hooks.payload import SUBAGENT, TEAMMATE, HookAgent
from teamwright.hooks.started_agents_file import AgentStarts

GOLDEN = Path(__file__).parent.parent / "golden"
SESSION = "0190f0e4-1111-7222-8333-444455556666"
TRANSCRIPT = Path("/home/you/.teamwright/projects/work/session.jsonl")

LEADER = HookAgent(SESSION, TRANSCRIPT)
MATE = HookAgent(
    SESSION, TRANSCRIPT, TEAMMATE, "ada", "ada@crew", "general-purpose", "crew", "lead", 2, Path("/x/ada.jsonl")
)
SUB = HookAgent(SESSION, TRANSCRIPT, SUBAGENT, "a1b2c3", "a1b2c3", "Explore", "", "ada", 1, Path("/x/a1b2c3.jsonl"))

GIVEN = {"file_path": "/project/main.py", "old_string": "a", "new_string": "b"}
FACTS = {"added": 1, "removed": 1}
SUGGESTED = [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
FORM = {"message": "Which table?", "requestedSchema": {"type": "object", "properties": {"table": {"type": "string"}}}}

TELLS: dict[str, tuple[HookAgent, dict[str, Any]]] = {
    "Setup": (LEADER, payload.setup("init")),
    "SessionStart": (LEADER, payload.session_start("startup", "sonnet")),
    "SessionEnd": (LEADER, payload.session_end("other")),
    "UserPromptSubmit": (LEADER, payload.user_prompt_submit("Fix the parser.")),
    "PreToolUse": (MATE, payload.pre_tool_use("Edit", GIVEN, "toolu_1")),
    "PostToolUse": (
        MATE,
        payload.post_tool_use("Edit", GIVEN, "toolu_1", payload.tool_response("Edit", GIVEN, "Changed.", FACTS)),
    ),
    "PostToolUseFailure": (
        MATE,
        payload.tool_failure("Edit", GIVEN, "toolu_1", "The text is not there.", interrupted=False),
    ),
    "PermissionRequest": (SUB, payload.permission_request("Bash", {"command": "make"}, "toolu_2", SUGGESTED)),
    "Stop": (LEADER, payload.stop("Done.", is_repeated=False)),
    "SubagentStart": (SUB, payload.subagent_start(SUB)),
    "SubagentStop": (SUB, payload.subagent_stop(SUB, "Found it.", "done", is_repeated=True)),
    "TeammateIdle": (MATE, payload.stop("Done.", is_repeated=False)),
    "TaskCreated": (LEADER, payload.task_event("7", "Fix the parser", "All of it.", "team-lead", "crew")),
    "TaskCompleted": (MATE, payload.task_event("7", "Fix the parser", "All of it.", "ada", "crew")),
    "PreCompact": (LEADER, payload.pre_compact("manual", "Keep the names.")),
    "PostCompact": (LEADER, payload.post_compact("auto", "We fixed the parser.")),
    "Notification": (LEADER, payload.notification("permission_prompt", "ada asks: Bash make")),
    "StopFailure": (LEADER, payload.stop_failure("rate_limit", "HTTP 429: slow down", "the service has a limit")),
    "PostToolBatch": (
        MATE,
        payload.tool_batch(
            [payload.post_tool_use("Edit", GIVEN, "toolu_1", payload.tool_response("Edit", GIVEN, "Changed.", FACTS))]
        ),
    ),
    "UserPromptExpansion": (LEADER, payload.prompt_expansion("slash_command", "ship", "it all", "the repository")),
    "Elicitation": (LEADER, payload.elicitation("db", FORM)),
    "ElicitationResult": (
        LEADER,
        payload.elicitation_result("db", FORM, {"action": "accept", "content": {"table": "users"}}),
    ),
    "WorktreeCreate": (LEADER, payload.worktree_create("ada")),
    "WorktreeRemove": (LEADER, payload.worktree_remove(Path("/trees/ada"))),
}


@pytest.mark.promise("G7", "F69")
@pytest.mark.parametrize("event", sorted(EVENTS))
def test_an_event_tells_what_its_golden_file_has(event):
    who, more = TELLS[event]
    told = {**payload.common_fields(who, Path("/work"), "default"), **more, "hook_event_name": event}
    path = GOLDEN / f"hook_{event}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(json.dumps(told, indent=2) + "\n")
    assert json.loads(path.read_text()) == told
    subject = EVENTS[event]
    assert not subject or subject in told, "what matchers look at is told"


@pytest.mark.promise("G7", "F54")
def test_a_start_after_a_compaction_says_so_as_its_golden_file_has():
    told = {**payload.common_fields(LEADER, Path("/work"), "default"), **payload.session_start("compact", "sonnet")}
    told["hook_event_name"] = "SessionStart"
    path = GOLDEN / "hook_SessionStart_compact.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(json.dumps(told, indent=2) + "\n")
    assert json.loads(path.read_text()) == told


@pytest.mark.promise("F69")
def test_whose_event_it_is_stands_in_every_payload():
    keys = {"session_id", "transcript_path", "cwd", "permission_mode", "kind", "parent", "generation"}
    for who, more in ((LEADER, set()), (SUB, {"agent_id", "agent_type"})):
        assert set(payload.common_fields(who, Path("/work"), "default")) == keys | more
    teammate = payload.common_fields(MATE, Path("/work"), "plan")
    assert set(teammate) == keys | {"agent_id", "agent_type", "teammate_name", "team_name"}
    assert (teammate["parent"], teammate["generation"], teammate["permission_mode"]) == ("lead", 2, "plan")


def test_the_result_of_a_command_has_the_names_that_hooks_look_for():
    response = payload.tool_response("Bash", {"command": "ls"}, "a\nb", {"exit_code": 0})
    assert (response["stdout"], response["interrupted"], response["exit_code"]) == ("a\nb", False, 0)
    assert len(payload.tool_response("Read", {}, "x" * 200_000, {})["content"]) == payload.MAX_RESPONSE


@pytest.mark.promise("F69")
def test_a_start_without_a_stop_is_found_again_and_damage_hides_no_other(tmp_path):
    path = tmp_path / "hooks.jsonl"
    first = AgentStarts(path)
    for who in (LEADER, MATE, SUB):
        first.record_start(who)
    first.record_stop(SUB)
    first.close()
    with open(path, "ab") as file:
        file.write(
            b'{"type":"start"}\nnot json\n{"type":"start","key":"x","who":{"session":3,"nobody":1}}\n{"type":"st'
        )
    again = AgentStarts(path)
    assert again.unstopped() == [LEADER, MATE]
    again.record_stop(MATE)
    assert again.unstopped() == [LEADER]


def test_what_cannot_be_noted_happens_all_the_same(tmp_path):
    (tmp_path / "file").write_text("")
    nowhere = AgentStarts(tmp_path / "file" / "hooks.jsonl")
    nowhere.record_start(MATE)
    assert nowhere.unstopped() == []
