"""What a pane says of mail: people read words, not the protocol."""

import pytest

from teamwright.protocol.mail import (
    InboxEntry,
    ModeChangeMessage,
    PlanApprovalResponse,
    ShutdownRequest,
    TaskAssignment,
)
from teamwright.protocol.messages import text_block
from teamwright.protocol.runtime_tags import NO_KEY_TAGS
from teamwright.ui.terminal.conversation_view import received_lines
from teamwright.ui.terminal.events import EventFormatter

NOW = "2026-01-01T00:00:00.000Z"


@pytest.mark.promise("C10")
@pytest.mark.parametrize(
    ("message", "words"),
    [
        (ShutdownRequest(request_id="r", sender="team-lead", reason="done", timestamp=NOW), "you may stop: done"),
        (ShutdownRequest(request_id="r", sender="team-lead", timestamp=NOW), "you may stop"),
        (
            TaskAssignment(task_id="3", subject="count", description="d", assigned_by="team-lead", timestamp=NOW),
            "#3 is yours: count",
        ),
        (PlanApprovalResponse(request_id="p", approved=True, timestamp=NOW), "your plan is approved"),
        (
            PlanApprovalResponse(request_id="p", approved=False, feedback="smaller", timestamp=NOW),
            "your plan is not approved: smaller",
        ),
        (ModeChangeMessage(sender="user", mode="plan", timestamp=NOW), "the mode is plan"),
    ],
)
def test_a_message_of_the_protocol_is_shown_in_words(message, words):
    entry = InboxEntry(sender="team-lead", text=message.encode(), timestamp=NOW, msg_id="m")
    [line] = received_lines([text_block(NO_KEY_TAGS.entry(entry))], "ann", EventFormatter(width=80))
    assert line.endswith(f"lead → ann: {words}")


@pytest.mark.promise("C10")
def test_plain_words_are_shown_as_they_are():
    entry = InboxEntry(sender="bob", text="see <b> & co", timestamp=NOW, msg_id="m")
    [line] = received_lines([text_block(NO_KEY_TAGS.entry(entry))], "ann", EventFormatter(width=80))
    assert line.endswith("bob → ann: see <b> & co")
