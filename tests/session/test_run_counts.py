"""Counts of a run: every message once, whichever of its two events comes first."""

from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.events import MessageDelivered, MessageSent
from teamwright.session.session import RunCounts


def sent(number: int, wire: str = "", summary: str = "hello") -> MessageSent:
    return MessageSent(member="ann", to="ben", message_id=f"m{number}", summary=summary, wire=wire)


@given(st.permutations([*range(6), *range(10, 16)]))
def test_a_message_counts_once_whichever_event_comes_first(order):
    tally = RunCounts()
    for one in order:
        tally.count(sent(one) if one < 10 else MessageDelivered(member="ben", message_ids=(f"m{one - 10}",)))
    assert (tally.sent, tally.seen, tally.waiting) == (6, 6, set())


def test_what_was_never_sent_is_no_message_and_neither_is_an_empty_notice():
    tally = RunCounts()
    tally.count(MessageDelivered(member="team-lead", message_ids=("prompt:1", "m2")))
    tally.count(sent(2, "idle_notification", "idle"))
    tally.count(sent(3))
    assert (tally.sent, tally.seen, tally.waiting) == (1, 0, {"m3"})
