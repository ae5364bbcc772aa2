"""A member that another program runs asks its lead for a permission: the person answers, and it is told on the wire."""

import asyncio
import json

import pytest

from teamwright import MessageSent, RequestOpened, Team
from teamwright.approvals.request_files import open_requests
from teamwright.protocol.ids import iso_time
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.members import RosterMember
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from tests.session.approvals.test_queue import TOUCH, Asked, Events, a_team, told
from tests.support.waits import WAIT_S

ASKED = {
    "type": "permission_request",
    "request_id": "perm-1795215493406-abc1234",
    "agent_id": "pat",
    "tool_name": "Write",
    "tool_use_id": "toolu_1",
    "description": "write a file",
    "input": {"file_path": "/tmp/x", "content": "one"},
    "permission_suggestions": [{"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
}


async def joined(team: Team, name: str) -> None:
    """A stranger puts a member of its own on the roster, as its program does: without our locks."""
    crew = team.session.team
    path = crew.home.config(crew.directory)
    config = json.loads(path.read_text())
    member = RosterMember(
        name=name, agent_id=f"{name}@{crew.name}", agent_type="general-purpose", backend_type="tmux", cwd="/work"
    )
    config["members"].append(member.to_json())
    path.write_text(json.dumps(config, indent=2))
    while name not in crew.external.external_names:
        crew.changed.clear()
        if name not in crew.external.external_names:
            await asyncio.wait({asyncio.ensure_future(crew.changed.wait())}, timeout=0.2)


def writes(team: Team, sender: str, body: dict) -> None:
    """A stranger writes into the lead's inbox."""
    path = team.session.team.mailbox("team-lead").path
    entries = json.loads(path.read_text()) if path.exists() else []
    entries.append(InboxEntry(sender=sender, text=json.dumps(body), timestamp=iso_time()).to_json())
    path.write_text(json.dumps(entries, indent=2))


async def answered(team: Team, name: str) -> dict:
    """The answer in the stranger's inbox, once it is there."""
    path = team.session.team.home.inbox(team.session.team.directory, name)
    while not path.exists() or "permission_response" not in path.read_text():
        team.session.team.changed.clear()
        await asyncio.wait({asyncio.ensure_future(team.session.team.changed.wait())}, timeout=0.2)
    [entry] = json.loads(path.read_text())
    assert entry["from"] == "team-lead" and "summary" not in entry and "color" not in entry
    return json.loads(entry["text"])


@pytest.mark.promise("C4", "G4", "F44", "P7")
async def test_a_strangers_request_is_asked_of_the_person_and_answered_in_its_own_words(tmp_path):
    asked, model = Asked(), ScriptedModel({"lead": ["ok"] * 9, "ada": ["ok"] * 3})
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        await team.spawn("ada", "Wait.")
        await joined(team, "pat")
        writes(team, "pat", ASKED)
        event = await asked.next()
        assert (event.member, event.tool, event.input) == ("pat", "Write", ASKED["input"])
        assert "write a file" in event.what and [one["type"] for one in event.suggestions] == ["setMode"]
        other = {"file_path": "/tmp/x", "content": "two"}
        await event.allow(input=other, updates=event.suggestions)
        told_it = await answered(team, "pat")
        assert open_requests(find_home()) == []
        await team.run("What is new?")
    assert told_it == {
        "type": "permission_response",
        "request_id": ASKED["request_id"],
        "subtype": "success",
        "response": {"updated_input": other, "permission_updates": ASKED["permission_suggestions"]},
    }
    assert "Another program runs this member. The user answers it" in told(model)


@pytest.mark.promise("C4", "F44", "P7")
@pytest.mark.parametrize("wrong", [{}, {"input": "rm"}, {"tool_name": 5}])
async def test_where_nobody_is_here_or_it_is_not_understood_a_stranger_is_denied_at_once(tmp_path, wrong):
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["ok"] * 3})
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model) as team:
        await team.spawn("ada", "Wait.")
        await joined(team, "pat")
        writes(team, "pat", ASKED | wrong)
        told_it = await answered(team, "pat")
    assert (told_it["subtype"], list(told_it)) == ("error", ["type", "request_id", "subtype", "error"])
    assert ("not understood" if wrong else "no user is present to ask") in told_it["error"]


@pytest.mark.promise("F65", "P7")
async def test_who_is_no_member_of_another_program_asks_nobody_by_mail(tmp_path):
    asked, model = Asked(), ScriptedModel({"lead": ["ok"] * 9, "ada": [TOUCH, "ok", "ok"]})
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        opened = Events(team, RequestOpened)
        await team.spawn("ada", "Wait.")
        real = await asked.next()
        came = Events(team, MessageSent)
        for name, known_as in (("ada", "ada"), ("nobody", "nobody"), ("system", "unverified system")):
            writes(team, name, ASKED | {"agent_id": name})
            await came.until(lambda one, sender=known_as: (one.member, one.wire) == (sender, "permission_request"))
        assert [one.request for one in opened] == [real.request]
        await real.deny()
        await team.run("What came?")
    assert told(model).count("No request waits for your answer") >= 3
