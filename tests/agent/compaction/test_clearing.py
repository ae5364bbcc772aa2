"""A conversation that a person cleared: empty for its agent, whole in its file, before or after but never between."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.agent.compaction import clear_conversation, compact_now
from teamwright.agent.conversation import INTERRUPTED_RESULT, Conversation, UserMessage
from teamwright.agent.transcript import calls_without_result, find_delivered_ids, messages_backward, read_history
from teamwright.agent.turn_loop import run_turn
from teamwright.models.model import Prefix, Reply
from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import Compacted
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage
from tests.agent.compaction.test_compact import loaded, small, texts, told
from tests.agent.parts import call, says
from tests.support.waits import WAIT_S

ROOT = Path(__file__).parents[3]


class Stands:
    """What stands beside the conversation."""

    flags = 0

    async def wait_until_marked_read(self, _agent) -> None:
        self.flags += 1

    async def status_text(self, _agent) -> str:
        return "How things stand now: ben works."


@pytest.mark.promise("H6", "H5")
async def test_the_next_request_has_the_same_prefix_and_only_how_things_stand(tmp_path):
    agent, events, model = small(tmp_path, says("one"), says("two"), says("three"))
    agent.compaction.context = stands = Stands()
    agent.toolbox.workplace.note_seen(Path(__file__), b"read")
    prefix = agent.conversation.prefix
    await run_turn(agent, told("the former job", "prompt:1"))
    await run_turn(agent, told("more of it", "prompt:2"))
    former = list(agent.conversation.items)
    made = await clear_conversation(agent)
    assert made.done and stands.flags == 1
    assert agent.conversation.prefix is prefix, "the service still has it in its cache"
    assert not agent.toolbox.workplace.seen_files, "what it no longer knows it has not read"
    assert [(e.state, e.trigger) for e in events if isinstance(e, Compacted)] == [("done", "clear")]
    await run_turn(agent, told("a new job", "prompt:3"))
    asked = texts(model.seen[-1])
    assert "former job" not in asked and "ben works" in asked and "the user cleared" in asked and "a new job" in asked
    again = loaded(agent)
    assert again.items == agent.conversation.items and again.answer_count == 3 and again.message_count == 6
    assert list(reversed(list(messages_backward(again.path))))[:4] == former, "the former one stays in the file"
    assert again.delivered_ids({"prompt:1", "prompt:3", "prompt:9"}) == {"prompt:1", "prompt:3"}


@pytest.mark.promise("H6")
async def test_nothing_said_is_nothing_to_clear_also_twice_in_a_row(tmp_path):
    agent, events, _ = small(tmp_path, says("one"))
    assert not (await clear_conversation(agent)).done and not events
    await run_turn(agent, told("job", "prompt:1"))
    assert (await clear_conversation(agent)).done
    size = agent.conversation.path.stat().st_size
    assert not (await clear_conversation(agent)).done and agent.conversation.path.stat().st_size == size


@pytest.mark.promise("H6", "H1")
async def test_a_call_that_was_cut_off_stays_behind_with_a_result_and_nothing_is_owed(tmp_path):
    agent, _, _ = small(tmp_path)
    talk = agent.conversation
    talk.append_user_message(told("job", "prompt:1"))
    talk.append_reply(Reply([call("Echo", "t1", text="x")], "tool_use", Usage(requests=1), "m"))
    talk.queue("notice:n", [text_block("it waits")])
    assert talk.owes_answer is False and talk.unanswered_calls()
    assert (await clear_conversation(agent)).done
    again = loaded(agent)
    assert not again.unanswered_calls() and not again.owes_answer and list(again.queued) == ["notice:n"]
    assert calls_without_result(again.path) == []
    assert INTERRUPTED_RESULT.encode() in again.path.read_bytes()


@pytest.mark.promise("H6", "F58")
async def test_a_cleared_conversation_is_compacted_and_cleared_like_any_other(tmp_path):
    answers = [says("one"), says("two"), says("a summary of two"), says("three"), says("four")]
    agent, _, model = small(tmp_path, *answers)
    await run_turn(agent, told("first", "prompt:1"))
    await clear_conversation(agent)
    await run_turn(agent, told("second", "prompt:2"))
    assert (await compact_now(agent)).done
    await run_turn(agent, told("third", "prompt:3"))
    assert "a summary of two" in texts(model.seen[-1]) and "first" not in texts(model.seen[-1])
    await clear_conversation(agent)
    await run_turn(agent, told("fourth", "prompt:4"))
    assert "a summary of two" not in texts(model.seen[-1])
    again = loaded(agent)
    assert again.answer_count == 4 and again.message_count == 8 and again.items == agent.conversation.items


@pytest.mark.promise("H6")
async def test_a_disk_that_is_full_leaves_the_conversation_as_it_was(tmp_path, monkeypatch):
    agent, events, _ = small(tmp_path, says("one"))
    await run_turn(agent, told("job", "prompt:1"))
    agent.conversation.append_user_message(told("owed", "prompt:2"))
    before = list(agent.conversation.items)

    def full(self: Conversation, line: bytes) -> None:
        raise StorageError("disk-full", "no room")

    monkeypatch.setattr(Conversation, "_append", full)
    with pytest.raises(StorageError):
        await clear_conversation(agent)
    assert agent.conversation.items == before and agent.conversation.owes_answer
    assert not [event for event in events if isinstance(event, Compacted)]


def life(root: Path, at: int, kind: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.agent.compaction.clear_child", str(root), str(at), kind]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=WAIT_S)


@pytest.mark.slow
@pytest.mark.promise("H6", "H5", "P1")
@pytest.mark.parametrize("kind", ["whole", "torn"])
def test_killed_at_every_moment_it_is_before_the_boundary_or_behind_it(tmp_path, kind):
    assert life(tmp_path / "born", 0, kind).stdout == "done\n"
    before = (tmp_path / "born/ada.jsonl").read_bytes()
    ends, at = [], 0
    while not ends or ends[-1] != "done":
        at += 1
        root = tmp_path / str(at)
        shutil.copytree(tmp_path / "born", root)
        done = life(root, at, kind)
        assert done.returncode == -signal.SIGKILL or done.stdout == "done\n", done.stderr
        ends.append("done" if done.returncode == 0 else "killed")
        content = (root / "ada.jsonl").read_bytes()
        assert content.startswith(before), "no line is ever changed"
        made = Conversation.load(root / "ada.jsonl", Prefix.build({"model": "m"}))
        cleared = read_history(root / "ada.jsonl").boundary is not None
        assert list(made.queued) == ["notice:n1"] and made.delivered_ids({"mail:m1"}) == {"mail:m1"}
        if cleared:
            assert len(made.items) == 1 and not made.owes_answer and b"You are ada." in made.items[0]
        else:
            assert len(made.items) >= 2 and json.loads(made.items[0])["content"][0]["text"] == "a letter"
        made.append_user_message(UserMessage((text_block("go on"),), ("prompt:p",)))
        assert calls_without_result(made.path) == []
        made.close()
    assert at >= 7


@pytest.mark.promise("H5", "H6")
def test_a_transcript_of_version_1_that_was_cleared_stays_readable():
    golden = ROOT / "tests/golden/transcript_v1_cleared.jsonl"
    history = read_history(golden)
    assert [json.loads(item)["role"] for item in history.items] == ["user"] and not history.owes_answer
    assert history.header["v"] == 1 and history.prefix == "1f2e" and list(history.queued) == ["mail:q1"]
    assert find_delivered_ids(golden, {"mail:a1", "mail:b2", "mail:q1"}) == {"mail:a1", "mail:b2"}
