"""What a member was told is known for ever, and little of it is in memory."""

import pytest

from teamwright.agent.conversation import Conversation
from teamwright.mail.inbox import inbox_for
from teamwright.models.model import Prefix, Reply
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.messages import text_block
from teamwright.protocol.usage import Usage
from teamwright.teams import incoming_mail
from teamwright.teams.incoming_mail import IncomingMail

MOST = 8


@pytest.fixture
async def desk(tmp_path, monkeypatch):
    monkeypatch.setattr(incoming_mail, "MAX_REMEMBERED", MOST)
    inbox = inbox_for(tmp_path / "ada.json", tmp_path / "guard", tmp_path / "archive.jsonl")
    conversation = Conversation.start(tmp_path / "ada.jsonl", Prefix.build({"model": "m"}), {"member": "ada"})
    return IncomingMail("ada", inbox, conversation, lambda event: None)


async def read(desk: IncomingMail) -> list[str]:
    """One turn on what is unread; the texts that the model was shown."""
    entries = await desk.unread()
    if entries:
        desk.conversation.append_user_message(desk.compose(entries))
        await desk.mark_delivered(entries)
        desk.conversation.append_reply(Reply([text_block("Seen.")], "end_turn", Usage(), "m"))
    return [entry.text for entry in entries]


@pytest.mark.promise("P1", "P6", "F10")
async def test_a_message_that_comes_back_unread_is_not_told_again_though_many_came_since(desk):
    for number in range(5 * MOST):
        await desk.inbox.put(InboxEntry("ben", f"message {number}"))
        if number == 2:
            copy = desk.inbox.path.read_bytes()  # a stranger's, with the third one unread
        assert await read(desk) == [f"message {number}"]
    desk.inbox.path.write_bytes(copy)
    assert await read(desk) == []
    assert await desk.inbox.unread() == [], "it is flagged again"
    assert len(desk._delivered_ids) <= MOST


@pytest.mark.promise("P1", "P6")
async def test_the_transcript_is_asked_only_for_what_may_have_been_told_and_once(desk, monkeypatch):
    asked: list[set[str]] = []
    holds = Conversation.delivered_ids
    monkeypatch.setattr(Conversation, "delivered_ids", lambda self, ids: asked.append(set(ids)) or holds(self, ids))
    for number in range(3 * MOST):
        await desk.inbox.put(InboxEntry("ben", f"message {number}"))
        await read(desk)
    assert len(asked) == 1, "the first look alone: a life before this one may have told something"
    old = await desk.inbox.put(InboxEntry("ben", "written long ago", timestamp="2020-01-01T00:00:00.000Z"))
    for _ in range(3):
        assert [entry.msg_id for entry in await desk.unread()] == [old]
    assert asked[1:] == [{f"mail:{old}"}]
