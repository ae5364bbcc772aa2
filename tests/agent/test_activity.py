"""What an agent is busy with: told once a call when it lasts, and when nothing comes; nobody at work, no timer."""

import asyncio

import pytest

from teamwright.agent.activity_monitor import Watchdog
from tests.support.waits import WAIT_S

LONG = 3600.0


class Heard:
    """Collects what is told."""

    def __init__(self):
        self.events = []
        self.some = asyncio.Event()

    def __call__(self, event):
        self.events.append(event)
        self.some.set()

    async def next(self):
        async with asyncio.timeout(WAIT_S):
            await self.some.wait()
        self.some.clear()
        return self.events[-1]


def timers() -> int:
    loop = asyncio.get_running_loop()
    return sum(not handle.cancelled() for handle in loop._scheduled)


@pytest.mark.promise("D7")
async def test_a_tool_call_that_lasts_is_told_once_with_its_beginning_and_is_never_stalled():
    heard = Heard()
    activity = Watchdog(heard, tell_s=0.01, stalled_s=0.02).activity("ada")
    activity.start_turn()
    activity.start_tool_call("c1", "Bash sleep 9")
    event = await heard.next()
    assert (event.member, event.doing, event.what, event.stalled) == ("ada", "tool", "Bash sleep 9", False)
    assert event.since <= event.at
    assert timers() == 0  # it may last for ever and costs nothing more
    activity.end_turn()


@pytest.mark.promise("D7")
async def test_of_parallel_calls_the_oldest_is_told_and_the_next_one_when_it_has_ended():
    heard = Heard()
    activity = Watchdog(heard, tell_s=0.01, stalled_s=LONG).activity("ada")
    activity.start_turn()
    activity.start_tool_call("c1", "Bash one")
    activity.start_tool_call("c2", "Bash two")
    assert (await heard.next()).what == "Bash one"
    activity.end_tool_call("c1")
    assert (await heard.next()).what == "Bash two"
    activity.end_tool_call("c2")
    activity.end_turn()
    assert timers() == 0


@pytest.mark.promise("D7", "F40")
async def test_a_model_that_says_nothing_stalls_and_its_next_word_ends_that():
    heard = Heard()
    activity = Watchdog(heard, tell_s=0.005, stalled_s=0.5).activity("ada")  # far apart: a busy machine is late
    activity.start_turn()
    activity.start_model_call("m")
    first = await heard.next()
    assert (first.doing, first.what, first.stalled) == ("model", "m", False)
    assert (await heard.next()).stalled
    activity.note_output()
    again = heard.events[-1]
    assert (again.doing, again.stalled) == ("model", False)
    activity.end_turn()
    assert timers() == 0


@pytest.mark.promise("D7", "F60")
async def test_a_pause_is_told_until_the_model_is_heard_and_is_not_stalled():
    heard = Heard()
    activity = Watchdog(heard, tell_s=0.005, stalled_s=0.01).activity("ada")
    activity.start_turn()
    activity.start_model_call("m")
    activity.start_wait("the rate limit")
    event = await heard.next()
    assert (event.doing, event.what, event.stalled) == ("pause", "the rate limit", False)
    assert timers() == 0
    activity.note_output()
    assert heard.events[-1].doing == "model"
    activity.end_turn()


@pytest.mark.finding("R9")
async def test_a_prompt_that_is_read_is_told_in_steps_and_is_never_stalled():
    heard = Heard()
    activity = Watchdog(heard, tell_s=0.005, stalled_s=0.01).activity("ada")
    activity.start_turn()
    activity.start_model_call("m")
    activity.note_prompt_read(0.0)
    event = await heard.next()
    assert (event.doing, event.what, event.stalled, event.own_server) == ("prompt", "", False, True)
    assert timers() == 0, "it may last for an hour and costs nothing more"
    for share in (0.41, 0.42, 0.42, 0.43, 0.5, 1.0):
        activity.note_prompt_read(share)
    assert [event.what for event in heard.events[1:]] == ["41 %", "50 %", "100 %"]
    activity.note_output(is_content=False)
    assert heard.events[-1].doing == "prompt", "counts are no content"
    activity.note_output()
    assert (heard.events[-1].doing, heard.events[-1].own_server) == ("model", True)
    activity.end_turn()


@pytest.mark.finding("R9")
async def test_a_prompt_that_is_read_within_a_second_is_not_told():
    heard = Heard()
    activity = Watchdog(heard, tell_s=LONG, stalled_s=LONG).activity("ada")
    activity.start_turn()
    for _ in range(20):
        activity.start_model_call("m")
        for share in range(101):
            activity.note_prompt_read(share / 100)
        activity.note_output()
    activity.end_turn()
    assert heard.events == []


@pytest.mark.finding("R9")
async def test_the_end_of_a_wait_for_a_slot_is_told_as_the_beginning_of_reading():
    heard = Heard()
    activity = Watchdog(heard, tell_s=0.005, stalled_s=LONG).activity("ada")
    activity.start_turn()
    activity.start_model_call("m")
    activity.start_wait("a free slot of its server")
    assert (await heard.next()).doing == "pause"
    activity.note_prompt_read(0.0)
    assert heard.events[-1].doing == "prompt"
    activity.end_turn()


async def test_work_between_calls_stalls_too():
    heard = Heard()
    activity = Watchdog(heard, tell_s=0.005, stalled_s=0.01).activity("ada")
    activity.start_turn()
    event = await heard.next()
    assert (event.doing, event.stalled) == ("", True)
    activity.end_turn()


@pytest.mark.promise("P6")
async def test_short_calls_share_one_timer_and_nobody_at_work_has_none():
    heard = Heard()
    dog = Watchdog(heard, tell_s=LONG, stalled_s=LONG)
    crew = [dog.activity(f"m{n}") for n in range(50)]
    for activity in crew:
        activity.start_turn()
        for call in range(20):
            activity.start_model_call("m")
            activity.note_output()
            activity.start_tool_call(f"c{call}", "Read x")
            activity.end_tool_call(f"c{call}")
    assert timers() == 1
    for activity in crew:
        activity.end_turn()
    assert timers() == 0 and heard.events == []


async def test_a_call_outside_of_a_turn_leaves_no_timer_behind():
    activity = Watchdog(Heard(), tell_s=0.01, stalled_s=0.01).activity("ada")
    activity.start_tool_call("c1", "Bash x")
    activity.end_tool_call("c1")
    assert timers() == 0
