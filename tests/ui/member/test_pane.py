"""What a person sees and does at the terminal of a member that has a pane of its own."""

import asyncio
import json
from typing import Any

import pytest

from teamwright.protocol.events import MemberChanged, TurnEnded
from teamwright.testing.replies import Answer
from tests.ui.member.panes import crew, needs_tmux, pane_of

pytestmark = [needs_tmux, pytest.mark.timeout(180)]


def words(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


@pytest.mark.promise("E2", "C10")
async def test_a_pane_says_who_it_is_shows_what_is_said_and_what_is_typed_reaches_the_member(tmp_path):
    def play(body: dict[str, Any]) -> str:
        return "The blue one." if "Which colour" in words(body) else "I have begun."

    async with crew(tmp_path, play) as (team, told, server):
        await team.spawn("ann", "Begin with the first file.")
        pane = await pane_of(team, told, "ann")
        await pane.sees("ann · team crew · anthropic/", "· default", "what you type goes to ann")
        await pane.sees("lead → ann: Begin with the first file.", "I have begun.")
        await pane.says("Which colour?")
        await pane.sees("you → ann: Which colour?", "The blue one.")
        assert "Which colour?" in words(server.bodies[-1])
        inbox = json.loads((tmp_path / "home/teams/crew/inboxes/ann.json").read_text())
        assert [one["from"] for one in inbox] == ["team-lead", "user"]
        for line in pane.text().splitlines():
            assert len(line) <= 80
