import json
import os
import signal
import subprocess
import sys

import pytest

from teamwright.agent.conversation import INTERRUPTED_RESULT, Conversation, UserMessage
from teamwright.agent.prompt import load_conversation, load_prefix, store_prefix
from teamwright.agent.transcript import MESSAGE_KEY, line_blocks, line_message, message_links, user_line
from teamwright.models.model import Prefix, Reply
from teamwright.protocol.errors import StorageError
from teamwright.protocol.messages import encode, text_block, tool_result_block
from teamwright.protocol.runtime_tags import RuntimeTags
from teamwright.protocol.usage import Usage


@pytest.fixture
def prefix() -> Prefix:
    return Prefix.build({"model": "m", "max_tokens": 10, "system": [text_block("söme")]}, ["beta-1"])


@pytest.fixture
def conversation(tmp_path, prefix) -> Conversation:
    return Conversation.start(tmp_path / "t.jsonl", prefix, {"session": "s", "member": "ada"})


def reply(*content, stop="end_turn") -> Reply:
    return Reply(list(content), stop, Usage(3, 4, requests=1), "m", "req_1")


def tool_use(name="Bash", call="toolu_1"):
    return {"type": "tool_use", "id": call, "name": name, "input": {}}


@pytest.mark.promise("H5")
def test_a_conversation_loads_as_it_was(conversation, prefix):
    conversation.append_user_message(UserMessage((text_block('hello ,"message":{ "'),), ("mail:1",)))
    conversation.append_reply(reply(text_block("hi\u2028there")))
    conversation.close()
    again = Conversation.load(conversation.path, prefix)
    assert again.items == conversation.items
    assert not again.owes_answer
    assert again.header["member"] == "ada"
    assert again.header["prefix"] == prefix.digest


@pytest.mark.promise("P1")
def test_a_first_line_that_waits_for_the_next_is_in_the_file_with_it_or_not_at_all(tmp_path, prefix):
    path = tmp_path / "t.jsonl"
    one = Conversation.start(path, prefix, {"session": "s", "member": "ada"}, with_next=True)
    place = one.step_key("x")
    assert not path.exists()
    one.queue("prompt:1", [text_block("do it")])
    one.close()
    again = Conversation.load(path, prefix)
    assert (again.header["member"], list(again.queued), again.lines) == ("ada", ["prompt:1"], 1)
    assert again.step_key("x") == place


@pytest.mark.promise("P1")
def test_what_was_told_without_an_answer_is_owed(conversation, prefix):
    conversation.append_user_message(UserMessage((text_block("do it"),)))
    conversation.close()
    assert Conversation.load(conversation.path, prefix).owes_answer


@pytest.mark.promise("H1", "H5")
def test_a_call_that_was_running_when_the_process_died_gets_a_result_that_says_so(conversation, prefix):
    conversation.append_user_message(UserMessage((text_block("do it"),)))
    conversation.append_reply(reply(tool_use(call="toolu_1"), tool_use(call="toolu_2"), stop="tool_use"))
    conversation.close()
    again = Conversation.load(conversation.path, prefix)
    assert again.owes_answer and [call.id for call in again.unanswered_calls()] == ["toolu_1", "toolu_2"]
    again.append_user_message(UserMessage((text_block("go on"),)))
    results, words = (json.loads(item)["content"] for item in again.items[-2:])
    assert [block["tool_use_id"] for block in results] == ["toolu_1", "toolu_2"]
    assert all(block["content"] == INTERRUPTED_RESULT and block["is_error"] for block in results)
    assert words == [text_block("go on")] and again.owes_answer and not again.unanswered_calls()
    again.close()
    assert Conversation.load(conversation.path, prefix).items == again.items


@pytest.mark.promise("P1")
def test_a_place_of_a_conversation_has_the_same_name_when_it_is_loaded_again(conversation, prefix):
    conversation.append_user_message(UserMessage((text_block("do it"),)))
    conversation.append_reply(reply(tool_use(call="toolu_1"), stop="tool_use"))
    here = conversation.step_key("toolu_1")
    conversation.close()
    again = Conversation.load(conversation.path, prefix)
    assert again.step_key("toolu_1") == here != again.step_key("toolu_2")
    again.append_user_message(UserMessage((text_block("one more line"),)))
    assert again.step_key("toolu_1") != here


@pytest.mark.promise("P1", "H5")
@pytest.mark.parametrize("cut", [1, 7, 40])
def test_a_torn_last_line_is_cut_and_the_rest_loads(conversation, prefix, cut):
    conversation.append_user_message(UserMessage((text_block("one"),)))
    conversation.append_reply(reply(text_block("two")))
    conversation.close()
    whole = conversation.path.read_bytes()
    conversation.path.write_bytes(whole[:-cut])
    again = Conversation.load(conversation.path, prefix)
    assert again.items == conversation.items[:1]
    assert again.owes_answer
    again.append_reply(reply(text_block("two again")))
    assert conversation.path.read_bytes().count(b"\n") == 3


@pytest.mark.promise("P1")
def test_the_ledger_knows_which_ids_were_told(conversation):
    conversation.append_user_message(UserMessage((text_block("one"),), ("mail:a", "mail:b")))
    conversation.append_reply(reply(text_block('"injected":["mail:c"]')))
    conversation.append_user_message(UserMessage((text_block('{"injected":["mail:d"]}'),)))
    assert conversation.delivered_ids({"mail:a", "mail:c", "mail:d", "mail:x"}) == {"mail:a"}


@pytest.mark.promise("P1")
def test_nothing_is_in_memory_when_the_append_fails(conversation, monkeypatch):
    conversation.append_user_message(UserMessage((text_block("one"),)))
    soft = os.path.getsize(conversation.path) + 10
    script = (
        "import resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({soft}, {soft}))\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from pathlib import Path\n"
        "from teamwright.agent.conversation import Conversation, UserMessage\n"
        "from teamwright.models.model import Prefix\n"
        "from teamwright.protocol.errors import StorageError\n"
        "c = Conversation.load(Path(sys.argv[1]), Prefix.build({'model': 'm'}))\n"
        "before = list(c.items)\n"
        "try:\n"
        "    c.append_user_message(UserMessage(({'type': 'text', 'text': 'x' * 500},), ('mail:z',)))\n"
        "except StorageError as e:\n"
        "    print(e.slug, c.items == before)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(conversation.path)], capture_output=True, text=True)
    assert done.stdout.strip() == "disk-full True", done.stderr
    assert b"mail:z" not in conversation.path.read_bytes()
    assert conversation.path.read_bytes().endswith(b"\n")


@pytest.mark.promise("H5")
def test_a_newer_format_is_refused_by_name(conversation, prefix):
    raw = conversation.path.read_bytes().replace(b'"v":1', b'"v":99', 1)
    conversation.path.write_bytes(raw)
    with pytest.raises(StorageError, match="newer version"):
        Conversation.load(conversation.path, prefix)


@pytest.mark.promise("H5", "F57")
@pytest.mark.slow
def test_a_transcript_survives_sigkill_at_any_moment(tmp_path, prefix):
    path = tmp_path / "killed.jsonl"
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from teamwright.agent.conversation import Conversation, UserMessage\n"
        "from teamwright.models.model import Prefix, Reply\n"
        "from teamwright.protocol.usage import Usage\n"
        "c = Conversation.start(Path(sys.argv[1]), Prefix.build({'model': 'm'}), {'member': 'ada'})\n"
        "print('go', flush=True)\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    c.append_user_message(UserMessage(({'type': 'text', 'text': 'x' * (n * 37 % 9000)},), (f'mail:{n}',)))\n"
        "    c.append_reply(Reply([{'type': 'text', 'text': 'y' * 50}], 'end_turn', Usage(), 'm'))\n"
    )
    for _ in range(5):
        path.unlink(missing_ok=True)
        child = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        while path.stat().st_size < 200_000:
            pass
        child.send_signal(signal.SIGKILL)
        child.wait()
        again = Conversation.load(path, prefix)
        roles = [json.loads(item)["role"] for item in again.items]
        assert roles[::2] == ["user"] * len(roles[::2])
        assert roles[1::2] == ["assistant"] * len(roles[1::2])
        again.close()


@pytest.mark.promise("P1")
def test_a_prefix_is_stored_once_and_comes_back_byte_for_byte(tmp_path, prefix):
    store_prefix(tmp_path, prefix)
    store_prefix(tmp_path, prefix)
    assert load_prefix(tmp_path, prefix.digest) == prefix
    path = tmp_path / f"{prefix.digest}.json"
    path.write_bytes(path.read_bytes().replace("söme".encode(), b"some"))
    with pytest.raises(StorageError, match="not what its name says"):
        load_prefix(tmp_path, prefix.digest)


def test_results_and_text_share_one_user_line(conversation):
    conversation.append_user_message(UserMessage((tool_result_block("t1", "ok"), text_block("and mail")), ("mail:1",)))
    assert len(conversation.items) == 1
    assert [b["type"] for b in json.loads(conversation.items[0])["content"]] == ["tool_result", "text"]


def a_long_one(conversation, prefix, prefixes) -> list[bytes]:
    """Two rounds with calls, then words; returns the lines of its file."""
    store_prefix(prefixes, prefix)
    conversation.append_user_message(UserMessage((text_block("find both"),), ("prompt:1",)))
    for call in ("toolu_1", "toolu_2"):
        conversation.append_reply(reply(tool_use(call=call), stop="tool_use"))
        conversation.append_user_message(UserMessage((tool_result_block(call, f"found by {call}"),)))
    conversation.append_reply(reply(text_block("both found")))
    conversation.close()
    return conversation.path.read_bytes().splitlines(keepends=True)


def valid(messages) -> bool:
    """Whether a model service takes them: roles alternate, and each call has its result next."""
    calls: set[str] = set()
    for before, message in zip([None, *messages], messages, strict=False):
        results = {block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"}
        if (before is None) != (message is messages[0]) or (before and before["role"] == message["role"]):
            return False
        if results != calls:
            return False
        calls = {block["id"] for block in message["content"] if block["type"] == "tool_use"}
    return messages[0]["role"] == "user" and not calls


@pytest.mark.finding("D2")
@pytest.mark.promise("P5")
@pytest.mark.parametrize("lost", [(2,), (3,), (4,), (5,), (2, 3), (3, 4), (2, 4), (1, 2), (2, 3, 4, 5)])
def test_damaged_lines_in_the_middle_are_kept_beside_told_and_bridged(conversation, prefix, tmp_path, lost):
    prefixes = tmp_path / "prefixes"
    prefixes.mkdir()
    lines = a_long_one(conversation, prefix, prefixes)
    for number in lost:
        half = len(lines[number]) // 2
        nul = b"\0" * (len(lines[number]) - 1) + b"\n"
        lines[number] = nul if number % 2 else lines[number][:half] + b'"\xff' + lines[number][half + 2 :]
    damaged = b"".join(lines)
    conversation.path.write_bytes(damaged)
    again = load_conversation(conversation.path, prefixes)
    assert again.lost_lines.count == len(lost) and again.lost_lines.copy.read_bytes() == b"".join(
        lines[n] for n in lost
    )
    assert f"{len(lost)} line" in str(again.lost_lines) and str(conversation.path) in str(again.lost_lines)
    assert conversation.path.stat().st_size == len(damaged), "places in the file stay what they were"
    messages = [json.loads(item) for item in again.items]
    assert valid(messages) and "damaged" in json.dumps(messages)
    again.append_user_message(UserMessage((text_block("and now?"),)))
    again.close()
    third = load_conversation(conversation.path, prefixes)
    assert third.lost_lines is None and third.items == again.items


@pytest.mark.finding("D2")
def test_a_damaged_line_of_a_compaction_brings_back_what_it_stood_for(conversation, prefix, tmp_path):
    prefixes = tmp_path / "prefixes"
    prefixes.mkdir()
    store_prefix(prefixes, prefix)
    conversation.append_user_message(UserMessage((text_block("one"),)))
    conversation.append_reply(reply(text_block("two")))
    conversation.fold([b'{"role":"user","content":[{"type":"text","text":"summary"}]}'], 2, {})
    conversation.close()
    content = conversation.path.read_bytes()
    conversation.path.write_bytes(content.replace(b'"place":3', b'"place":x'))
    again = load_conversation(conversation.path, prefixes)
    assert again.lost_lines.count == 1 and [b"one" in again.items[0], b"two" in again.items[1]] == [True, True]


NOTE = RuntimeTags("79ad73960be515b6").note('A note, "notes":[1],"before":9')
SAID = {"type": "text", "text": 'Say ","notes":[ and \u2028 ☃ \\ "message":{'}


@pytest.mark.parametrize(
    "blocks",
    [
        [SAID],
        [SAID, NOTE],
        [NOTE, SAID, NOTE, NOTE],
        [NOTE],
        [SAID, SAID, NOTE],
        [{"text": "its keys in another order", "type": "text"}, NOTE],
        [{**SAID, "notes": [1]}, NOTE],
        [{"type": "text", "text": ""}],
    ],
)
def test_a_user_message_is_read_as_the_bytes_that_were_sent(blocks):
    item = encode({"role": "user", "content": blocks})
    line = user_line(message_links("", "a", ""), ["prompt:1"], blocks, item)
    assert line_message(line, line.find(MESSAGE_KEY)) == item
    assert list(line_blocks(line)) == blocks
