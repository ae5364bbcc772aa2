"""A lead that a program has begin anew: mail that waits is told afterwards, and nothing is cleared in a turn."""

import asyncio

import pytest

from teamwright import Compacted, TeamRefused
from tests.session.test_compaction import a_team, first_of
from tests.session.test_modes import HOLD, Asked, Stop


@pytest.mark.promise("H6", "F18", "P1")
async def test_a_program_clears_its_lead_between_two_prompts_and_unread_mail_is_told_afterwards(tmp_path):
    stop = Stop()
    model = Asked({"lead": [HOLD, "One.", "Two.", "Three."]})
    async with a_team(tmp_path, model, tools=[stop.hold]) as team:
        assert not (await team.clear()).done
        first = asyncio.ensure_future(team.run("the first prompt"))
        await stop.at()
        with pytest.raises(TeamRefused, match="the lead is at work") as refused:
            await team.clear()
        assert refused.value.note == "nothing was cleared"
        stop.go.set()
        await first
        await team.tasks.add("count files")
        await team.send("lead", "a letter that waits")
        seen: list[Compacted] = []
        team.session.log.subscribe(lambda _n, event: seen.append(event) if isinstance(event, Compacted) else None)
        made = await team.clear()
        assert made.done and [(one.member, one.trigger, one.state) for one in seen] == [("team-lead", "clear", "done")]
        assert (await team.run("the second prompt")).stop == "done"
        last = model.of("team-lead")[-1]
        told = b"".join(last.items).decode()
        assert "the first prompt" not in told and "a letter that waits" in told and "the second prompt" in told
        assert any("count files" in text for text in first_of(last))
