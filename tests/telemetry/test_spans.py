"""Spans of a session: a tree without gaps, with the times of the work, links for messages, and equal ids each time."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from teamwright import HookEnded, Team
from teamwright.storage.event_log import read_events
from teamwright.telemetry.spans import NO_CONTENT, Content, FinishedSpan, SpanBuilder
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

SECRET = "the-secret-of-the-user"


@pytest.fixture
async def log(tmp_path: Path) -> Path:
    """The log of a session: the lead calls a tool and a sub-agent, a member is spawned and written to."""
    (tmp_path / "work").mkdir()
    script = iter(
        [
            ("Bash", {"command": f"echo {SECRET}", "description": "say"}),
            ("Agent", {"description": "look around", "prompt": "Look.", "subagent_type": "Explore"}),
            ("SendMessage", {"to": "ada", "message": "Hello.", "summary": "hello"}),
            f"Done: {SECRET}.",
        ]
    )
    model = ScriptedModel(lambda request: next(script, "ok") if request.agent_name == "team-lead" else "ok")
    given: dict[str, Any] = {"cwd": tmp_path / "work", "home": tmp_path / "home", "model": model}
    async with Team("crew", permission_mode="bypassPermissions", **given) as team:
        await team.spawn("ada", "Say ok.")
        await asyncio.wait_for(team.wait_idle(), WAIT_S)
        await asyncio.wait_for(team.run("Go."), WAIT_S)
        await asyncio.wait_for(team.wait_idle(), WAIT_S)
        return team.session.log.path


def spans_of(log: Path, content: Content = NO_CONTENT) -> list[FinishedSpan]:
    builder = SpanBuilder("a-session", content)
    found = [span for number, event in read_events(log) for span in builder.add(number, event)]
    return [*found, *builder.finish()]


@pytest.mark.finding("S5")
async def test_each_span_has_its_parent_in_the_tree_and_ids_are_the_same_each_time(log):
    spans = spans_of(log)
    ids = {span.id for span in spans}
    assert len(ids) == len(spans) and spans == spans_of(log)
    [root] = [span for span in spans if span.parent is None]
    assert root.name == "session"
    assert all(span.parent in ids for span in spans if span is not root), "no orphan"
    assert all(span.end >= span.start for span in spans)
    names = {span.id: span.name for span in spans}
    parents = {(span.name, names.get(span.parent)) for span in spans if span.parent}
    assert parents >= {
        ("invoke_agent lead", "session"),
        ("execute_tool Bash", "invoke_agent lead"),
        ("invoke_agent Explore", "invoke_agent lead"),
        ("member ada", "session"),
        ("invoke_agent ada", "member ada"),
    }
    assert {parent for name, parent in parents if name == "chat scripted"} >= {
        "invoke_agent lead",
        "invoke_agent Explore",
        "invoke_agent ada",
    }


@pytest.mark.finding("S5")
async def test_a_message_is_a_link_from_the_turn_that_reads_it_to_the_turn_that_sent_it(log):
    spans = spans_of(log)
    of_lead = {span.id for span in spans if span.name == "invoke_agent lead"}
    turns = [span for span in spans if span.name == "invoke_agent ada"]
    assert [link for span in turns for link in span.links if link in of_lead], [span.links for span in turns]


@pytest.mark.finding("S5")
async def test_contents_are_exported_only_when_they_are_asked_for(log):
    assert SECRET not in repr(spans_of(log))
    with_tools = repr(spans_of(log, Content(tools=True)))
    assert f"echo {SECRET}" in with_tools and f"Done: {SECRET}" not in with_tools
    assert f"Done: {SECRET}" in repr(spans_of(log, Content(texts=True)))


@pytest.mark.finding("S5")
async def test_a_killed_process_leaves_spans_that_say_so_and_the_next_one_begins_another_root(log):
    events = list(read_events(log))
    cut = next(at for at, (_, event) in enumerate(events) if event.KIND == "tool_called")
    again = [(number + 10_000, event) for number, event in events]
    builder = SpanBuilder("a-session")
    spans = [span for number, event in [*events[:cut], *again] for span in builder.add(number, event)]
    roots = [span for span in [*spans, *builder.finish(events[-1][1].at)] if span.name == "session"]
    assert len(roots) == 2 and len({span.id for span in roots}) == 2
    assert [span.attributes.get("teamwright.cut_off", False) for span in roots] == [True, False]


def test_the_output_of_a_failed_hook_is_exported_only_when_details_of_tools_are_asked_for():
    event = HookEnded(member="team-lead", hook="Stop", kind="command", what="check", seconds=0.1, detail=SECRET, at=1.0)
    for content, error in ((NO_CONTENT, "failed"), (Content(tools=True), SECRET)):
        [span] = SpanBuilder("a-session", content).add(1, event)
        assert (span.error, SECRET in repr(span)) == (error, error == SECRET)
