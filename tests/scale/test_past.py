"""A long past costs nothing: inboxes with 100,000 consumed messages, conversations of 50 MiB."""

import pytest

from tests.scale.crew import child

MESSAGES = 100_000
UNREAD = 20
MIB = 1 << 20


@pytest.mark.slow
@pytest.mark.promise("C9", "F10", "P1", "P6")
def test_sends_looks_and_flags_move_as_many_bytes_after_a_hundred_thousand_messages_as_without(tmp_path):
    found = child("past", {"root": str(tmp_path), "messages": MESSAGES, "unread": UNREAD})
    assert found["consumed"] <= 100
    assert found["unread"], "what nobody read is all there, in order"
    assert found["archived"] == found["ids"] == MESSAGES - found["consumed"]
    assert found["bytes"] < 64_000
    for step, empty in found["empty"].items():
        for what, count in empty.items():
            if what != "archive":
                assert found["long"][step].get(what, 0) <= count * 1.2 + 8, (step, what)
    assert "archive" not in found["long"]["send"] | found["long"]["look"]
    assert found["long"]["flag"].get("archive", 0) <= found["empty"]["flag"]["archive"] + 8, "only to put more into it"


@pytest.mark.slow
@pytest.mark.promise("C9", "F10", "P5")
def test_a_team_that_goes_on_does_not_open_the_archive_of_what_was_read(tmp_path):
    found = child("returns", {"root": str(tmp_path), "kind": "mail", "messages": 20_000})
    assert min(found["archived"]) > 19_000 and len(found["archived"]) == 2
    assert found["opened"] == 0
    assert found["turns"] == 1


@pytest.mark.slow
@pytest.mark.promise("F57", "P5", "F62")
@pytest.mark.parametrize("who", ["ada", "team-lead"])
def test_a_conversation_of_fifty_mib_goes_on_word_for_word_within_three_times_its_size(tmp_path, who):
    found = child("returns", {"root": str(tmp_path), "kind": "transcript", "bytes": 50 * MIB, "who": who})
    assert found["size"] > 50 * MIB
    new, same, body = found["asked"][0]
    assert (new, same) == (1, True), "all that was said, as it was written, and the one new line"
    assert body > 49 * MIB
    assert found["held"] < 1.2 * found["size"]
    assert found["peak"] < 2.5 * found["size"], "the history and the body of one request"
    assert found["last"] == "assistant"
