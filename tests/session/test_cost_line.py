"""The line that every run ends with."""

import pytest

from teamwright.protocol.usage import Usage
from teamwright.session.result import MemberResult, Result
from teamwright.views.run_summary import cost_line, duration


def a_result(**changes: object) -> Result:
    usage = Usage(input_tokens=3_300, output_tokens=410, cache_read=9_000, requests=7, usd=0.0123)
    members = (
        MemberResult("team-lead", "lead", "sonnet", Usage(), context=9_120),
        MemberResult("tester", "completed", "sonnet", Usage(), context=12_044),
    )
    values = {"text": "", "stop": "done", "usage": usage, "members": members, "turns": 7, "duration_ms": 12_345}
    return Result(**values | changes)


def test_the_line_has_time_members_turns_tokens_money_and_the_fullest_context():
    assert cost_line(a_result()) == (
        "12 s · 2 members · 7 turns · 12,300 tokens in (9,000 cached), 410 out, 0.0123 USD"
        " · fullest context 12,044 tokens (tester)"
    )


def test_an_unknown_price_is_said_and_never_zero():
    line = cost_line(a_result(usage=Usage(input_tokens=10, usd=None)))
    assert "price unknown" in line
    assert "USD" not in line


def test_a_run_that_asked_nothing_of_a_model_has_no_context_to_tell():
    line = cost_line(a_result(members=(), turns=1, usage=Usage(), duration_ms=40))
    assert line == "0.0 s · 1 member · 1 turn · 0 tokens in, 0 out, 0.0000 USD"


def test_the_lead_goes_by_the_name_that_people_know():
    alone = (MemberResult("team-lead", "lead", "sonnet", Usage(), context=5),)
    assert cost_line(a_result(members=alone)).endswith("(lead)")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.44, "0.4 s"), (59.9, "59 s"), (60, "1 min 0 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_a_time_span_reads_at_a_glance(seconds: float, text: str):
    assert duration(seconds) == text
