"""Transcripts with compactions in them: what is read of them, and how far."""

import json
from pathlib import Path

import pytest

from teamwright.agent import transcript
from teamwright.agent.compaction_texts import condense, cut_results
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.agent.transcript import (
    MAX_LISTED_IDS,
    CompactBoundary,
    calls_without_result,
    find_delivered_ids,
    read_history,
    without_thinking,
)
from teamwright.models.model import Prefix
from teamwright.protocol.errors import StorageError
from teamwright.protocol.messages import encode, image_block, text_block, tool_result_block
from tests.agent.parts import call, says

PREFIX = Prefix.build({"model": "m"})


def user(text: str) -> bytes:
    return encode({"role": "user", "content": [text_block(text)]})


def talk(tmp_path) -> Conversation:
    return Conversation.start(tmp_path / "ada.jsonl", PREFIX, {"member": "ada"})


def rounds(made: Conversation, number: int, size: int = 10) -> None:
    for at in range(made.message_count, made.message_count + 2 * number, 2):
        made.append_user_message(UserMessage((text_block("q" * size),), (f"mail:{at}",)))
        made.append_reply(says("a" * size))


def fold(made: Conversation, text: str = "summary") -> None:
    at = len(made.items) - 1
    made.fold((user(text), *made.items[at:]), at, {"trigger": "auto"})


@pytest.fixture
def read_lines(monkeypatch):
    """Counts the lines that are read backward."""
    read: list[int] = []
    plain = transcript.read_backward

    def counted(path, *upto):
        for line in plain(path, *upto):
            read.append(len(line))
            yield line

    monkeypatch.setattr(transcript, "read_backward", counted)
    return read


@pytest.mark.promise("H6", "F57", "H5")
def test_fifty_megabytes_are_resumed_from_the_last_compaction_without_reading_them(tmp_path, read_lines):
    made = talk(tmp_path)
    rounds(made, 500, 50_000)
    assert made.path.stat().st_size > 49_000_000
    fold(made)
    rounds(made, 1)
    made.close()
    read_lines.clear()
    again = Conversation.load(made.path, PREFIX)
    assert sum(read_lines) < 300_000 and len(read_lines) == 3
    assert again.items == made.items and again.message_count == 1_002 and again.answer_count == 501
    assert again.step_key("x") == made.step_key("x")
    read_lines.clear()
    assert again.delivered_ids({"mail:0", "mail:new"}) == {"mail:0"}, (
        "old ids are known, and new ones are known to be new"
    )
    assert sum(read_lines) < 300_000


@pytest.mark.finding("T25")
@pytest.mark.promise("H6", "P1", "F05")
def test_more_ids_than_a_boundary_lists_are_looked_for_before_it(tmp_path, read_lines, monkeypatch):
    monkeypatch.setattr(transcript, "MAX_LISTED_IDS", 4)
    made = talk(tmp_path)
    rounds(made, 5)
    fold(made)
    rounds(made, 5)
    fold(made)
    made.close()
    assert find_delivered_ids(made.path, {f"mail:{n}" for n in range(0, 22, 2)}) == {
        f"mail:{n}" for n in range(0, 20, 2)
    }
    boundary = read_history(made.path).boundary
    assert (
        boundary is not None
        and boundary.has_older_ids
        and boundary.delivered_ids == ("mail:12", "mail:14", "mail:16", "mail:18")
    )
    read_lines.clear()
    assert find_delivered_ids(made.path, {"mail:18"}) == {"mail:18"} and len(read_lines) == 1
    assert MAX_LISTED_IDS == 1_064


@pytest.mark.promise("H6")
def test_what_a_boundary_says_is_what_it_is_read_as(tmp_path):
    strange = user('",messages":[ ,"message":{"role":"user"} ]} \u2028 é'), user('x ,"messages":[')
    boundary = CompactBoundary(
        line_count=7,
        messages=strange,
        summarized_count=5,
        answer_count=2,
        owes_answer=True,
        delivered_ids=("mail:1", 'mail:",'),
        has_older_ids=True,
        queued={"mail:q": [call("Echo", text=',"messages":[')]},
        prefix="abc",
    )
    line = boundary.encode_line({"trigger": "auto"})
    assert CompactBoundary.parse(line) == boundary
    body = json.loads(line)
    assert body["type"] == "compact" and [encode(m) for m in body["messages"]] == list(strange)
    for damaged in (line[:-1], line.replace(b'"place":7', b'"place":x'), b'{"type":"compact","sizes":[99999]}'):
        with pytest.raises(StorageError):
            CompactBoundary.parse(damaged)


@pytest.mark.promise("H5", "H6")
def test_a_transcript_of_version_1_with_a_compaction_stays_readable():
    golden = Path(__file__).parents[2] / "golden/transcript_v1.jsonl"
    history = read_history(golden)
    assert history.header["v"] == 1 and history.lines == 8 and list(history.queued) == ["mail:q1"]
    assert [json.loads(item)["role"] for item in history.items] == ["user", "assistant", "user", "assistant"]
    assert not history.owes_answer and history.prefix == "1f2e"
    assert find_delivered_ids(golden, {"mail:a1", "prompt:p1", "mail:q1", "mail:b2"}) == {
        "mail:a1",
        "prompt:p1",
        "mail:b2",
    }


@pytest.mark.promise("P1", "H6")
def test_what_is_owed_and_interrupted_is_the_same_before_and_after(tmp_path):
    made = talk(tmp_path)
    rounds(made, 3)
    made.append_user_message(UserMessage((text_block("more"),), ("mail:more",)))
    at = len(made.items) - 2
    made.fold((user("S"), *made.items[at:]), at, {})
    made.close()
    again = Conversation.load(made.path, PREFIX)
    assert again.owes_answer and not again.interrupted
    again.interrupt()
    at = len(again.items) - 2
    again.fold((user("S2"), *again.items[at:]), at, {})
    again.close()
    last = Conversation.load(made.path, PREFIX)
    assert last.interrupted and not last.owes_answer
    assert len(list(last.messages_backward())) == 7, "all messages are there, the newest first, and no summary"
    assert calls_without_result(made.path) == []


def test_calls_without_a_result_are_never_folded(tmp_path):
    made = talk(tmp_path)
    rounds(made, 2)
    made.append_user_message(UserMessage((text_block("go"),)))
    made.append_reply(says(call("Echo", "t1", text="x")))
    with pytest.raises(ValueError, match="whole turns"):
        fold(made)
    with pytest.raises(ValueError, match="whole turns"):
        made.fold((user("S"),), 1, {})


def test_a_conversation_written_down_in_short_fits_and_tears_nothing():
    items = [
        user("begin " + "b" * 9_000),
        encode(
            {"role": "assistant", "content": [call("Bash", "t1", command="ls"), {"type": "thinking", "thinking": "h"}]}
        ),
        encode(
            {"role": "user", "content": [tool_result_block("t1", [text_block("out"), image_block("image/png", "QQ")])]}
        ),
        *(user(f"</conversation> {number} " + "w" * 3_000) for number in range(50)),
    ]
    for room in (200_000, 60_000, 25_000, 9_000):
        text = condense(items, room)
        assert len(text) < room * 1.1
        assert text.startswith("[told]\nbegin") and "49 w" in text
        assert "</conversation>" not in text
    assert "messages are left out here" in condense(items, 9_000)
    whole = condense(items, 1_000_000)
    assert 'calls Bash {"command": "ls"}' in whole and "result: out [1 images]" in whole and "thinking" not in whole


def test_kept_results_are_cut_only_as_far_as_they_must_and_texts_never():
    result = encode({"role": "user", "content": [tool_result_block("t1", "r" * 40_000), text_block("t" * 5_000)]})
    said = encode({"role": "assistant", "content": [call("Bash", "t1", command="c" * 9_000)]})
    assert cut_results([said, result], 1_000_000) == [said, result]
    for tokens in (8_000, 6_000, 100):
        kept = cut_results([said, result], tokens)
        assert kept[0] == said
        blocks = json.loads(kept[1])["content"]
        assert blocks[0]["tool_use_id"] == "t1" and "were cut" in blocks[0]["content"]
        assert blocks[1]["text"] == "t" * 5_000
    assert cut_results(kept, 100) == kept


def test_an_answer_that_is_only_thought_keeps_its_place():
    thought = encode({"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]})
    assert json.loads(without_thinking(thought))["content"] == [text_block("(no words)")]
    plain = encode({"role": "assistant", "content": [text_block("I was thinking")]})
    assert without_thinking(plain) is plain
