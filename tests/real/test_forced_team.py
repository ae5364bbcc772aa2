"""Calls of a real model, which a proxy forces: a tool, and a team of two, on each wire of a real server."""

import json

import pytest

from tests.real.forcing_proxy import Call
from tests.real.local_server import (
    RUN_S,
    answers_in,
    cached_share,
    every_wire,
    flags_for,
    needs_server,
    program,
)

pytestmark = needs_server

CACHED_SHARE = 0.9
"""The least share of its prompt that a further request of a conversation finds in the server's cache."""

STEP_TOKENS = 130
"""The most tokens of a call with its short result, which alone are new in the next request of a turn."""

WORD = "zinnia"
TEAM_TOOLS = "Agent,TaskCreate,TaskUpdate,SendMessage"
CREATE = Call("TaskCreate", {"subject": "Find the word", "description": "Find it."})
SPAWN = Call("Agent", {"name": "ben", "description": "Find the word", "prompt": "Do task 1, and write to the lead."})
CLAIM = Call("TaskUpdate", {"taskId": "1", "owner": "ben", "status": "in_progress"})
COMPLETE = Call("TaskUpdate", {"taskId": "1", "status": "completed"})
WRITE = Call("SendMessage", {"to": "lead", "message": f"The word is {WORD}.", "summary": "The word"})


@every_wire
@pytest.mark.feature("A tool call, and the next request in the turn")
def test_a_tool_is_called_and_the_next_request_finds_the_conversation_in_the_cache(
    tmp_path, force, wire, record_figures
):
    word = tmp_path / "repo" / "word.txt"
    proxy = force({"lead": [Call("Read", {"file_path": str(word)})]})
    made = program(tmp_path, proxy.url)
    word.write_text(f"The word is {WORD}.\n")
    done = made.run("-p", "Read the file.", *flags_for(wire), timeout=RUN_S)
    assert done.returncode == 0, done.stderr
    assert proxy.asked == ["lead", "lead"]
    lines = made.transcript()
    assert [WORD in json.dumps(line) for line in lines if '"tool_result"' in json.dumps(line)] == [True]
    _, second = [line["usage"] for line in lines if line.get("type") == "assistant"]
    record_figures(second)
    assert second["input_tokens"] < STEP_TOKENS and second["cache_read_input_tokens"] > 5 * second["input_tokens"]


@every_wire
@pytest.mark.feature("A team of two: a task, a message, the second request of the member")
def test_a_member_claims_a_task_completes_it_and_writes_to_the_lead(tmp_path, force, wire, record_figures):
    proxy = force({"lead": [CREATE, SPAWN], "ben": [CLAIM, COMPLETE, WRITE]})
    made = program(tmp_path, proxy.url)
    done = made.run("-p", "Find the word with a team.", *flags_for(wire, TEAM_TOOLS), timeout=RUN_S)
    assert done.returncode == 0, done.stderr
    assert proxy.left() == {}
    team = json.loads(done.stdout)["team"]
    assert team["tasks_done"] == 1
    assert team["messages"]["sent"] >= 1 and team["messages"]["undelivered"] == 0
    assert f"The word is {WORD}." in json.dumps(made.transcript()), "the lead reads it"
    [transcript] = made.home.glob("projects/*/*/agents/ben.jsonl")
    answers = answers_in(transcript)
    called = [
        block["name"] for answer in answers for block in answer["message"]["content"] if block["type"] == "tool_use"
    ]
    assert called == ["TaskUpdate", "TaskUpdate", "SendMessage"]
    record_figures(answers[1]["usage"])
    assert cached_share(answers[1]["usage"]) > CACHED_SHARE
