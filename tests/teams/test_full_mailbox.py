"""A lead that takes no turn while its members work: their notices fill its mailbox and never end them."""

import asyncio
import json

import pytest

from teamwright import Budget
from teamwright.mail.inbox import inbox_for
from teamwright.mail.inbox_writer import MAX_RUNTIME_UNREAD, MAX_UNREAD
from teamwright.protocol.mail import IdleNotification, InboxEntry, parse_protocol
from teamwright.testing import ScriptedModel
from tests.support.inboxes import count_entries
from tests.teams.crew import a_team, until


@pytest.mark.slow
@pytest.mark.finding("T15")
@pytest.mark.timeout(900)
async def test_a_member_answers_1500_messages_without_a_turn_of_the_lead(tmp_path):
    model = ScriptedModel(lambda request: f"answer {len(request.items)}")
    async with a_team(tmp_path, model, budget=Budget.unlimited()) as team:
        ada = await team.spawn("ada", "Wait.")
        for n in range(1_500):
            await until(team, lambda: ada.state == "idle")
            await ada.send(f"job {n}")
        await until(team, lambda: ada.state == "idle")
        assert calls(model) > 1_500


@pytest.mark.finding("T15")
@pytest.mark.slow
async def test_notices_that_find_no_room_replace_the_older_ones_of_their_sender(tmp_path, own_home):
    """The lead's mailbox is full of other mail but for the room of the runtime."""
    model = ScriptedModel(lambda request: f"answer {len(request.items) // 2 + 1}")
    async with a_team(tmp_path, model) as team:
        ada, bob = await team.spawn("ada", "Wait."), await team.spawn("bob", "Wait.")
        await until(team, lambda: ada.state == "idle" and bob.state == "idle")
        path = own_home / ".teamwright/teams/crew/inboxes/team-lead.json"
        await fill(team, path)
        for n in range(3):
            await ada.send(f"job {n}")
            await until(team, lambda: ada.state == "idle" and calls(model) == n + 2)  # noqa: B023
        results = [notice.result for notice in notices(path, "ada")]
        assert results == ["answer 4"] and len(notices(path, "bob")) == 1
        assert count_entries(path)[0] == MAX_UNREAD + MAX_RUNTIME_UNREAD


@pytest.mark.finding("T15")
async def test_a_notice_that_finds_neither_room_nor_an_older_one_is_dropped_and_its_sender_goes_on(tmp_path, own_home):
    model = ScriptedModel(lambda request: f"answer {len(request.items) // 2 + 1}")
    async with a_team(tmp_path, model) as team:
        lost: list[str] = []
        team.session.log.subscribe(lambda _n, event: lost.append(getattr(event, "text", "")))
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        path = own_home / ".teamwright/teams/crew/inboxes/team-lead.json"
        path.write_text("[]")
        await fill(team, path)
        await ada.send("job")
        await until(team, lambda: ada.state == "idle" and calls(model) == 2)
        assert notices(path, "ada") == []
        assert any("the lead did not receive an idle notice of ada" in text for text in lost)
        await ada.send("another")
        await until(team, lambda: ada.state == "idle" and calls(model) == 3)


async def fill(team, path) -> None:
    """Fill the mailbox with plain messages up to the limit of the runtime."""
    inbox = inbox_for(path, team.session.team.home.guard(path), path.with_suffix(".archive"))
    free = MAX_UNREAD + MAX_RUNTIME_UNREAD - count_entries(path)[0]
    await asyncio.gather(*(inbox.put(InboxEntry("cy", f"mail {n}"), runtime=True) for n in range(free)))


def calls(model: ScriptedModel) -> int:
    return sum(request.agent_name == "ada" for request in model.requests)


def notices(path, sender: str) -> list[IdleNotification]:
    entries = [entry for entry in json.loads(path.read_text()) if entry["from"] == sender]
    return [found for entry in entries if isinstance(found := parse_protocol(entry["text"]), IdleNotification)]
