"""Going on with a team from Python: by its own session, or as a new lead."""

import asyncio
import json

import pytest

from teamwright import CannotStart, Team, TeamRefused, TeamwrightError
from teamwright.api.options import to_session_options
from teamwright.api.run import run_once
from teamwright.saved.sessions import session_views
from teamwright.saved.teams import find_session_to_resume
from teamwright.storage.paths import find_home
from teamwright.team_records.team_state import read_team_file
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import a_team, told, until


async def leave_a_team(cwd, **options) -> str:
    """A team with ada and an open task; the id of its session."""
    async with a_team(cwd, ScriptedModel({"lead": ["ok"] * 5, "ada": ["Read it."] * 5})) as team:
        await team.tasks.add("wait for the boat", metadata={"for": ["nobody"]})
        ada = await team.spawn("ada", "Read the map.")
        await until(team, lambda: ada.state == "idle" and team.session.team.is_quiet())
        return team.session.id


def again(how, cwd, name: str = "crew") -> Team:
    model = ScriptedModel({"lead": ["ok"] * 5, "ada": ["Again."] * 5})
    return how(name, model=model, cwd=cwd, permission_mode="bypassPermissions")


@pytest.mark.promise("D8", "F55", "F56")
async def test_resume_goes_on_with_the_same_session_and_says_what_came_back(tmp_path):
    own = await leave_a_team(tmp_path)
    async with again(Team.resume, tmp_path) as team:
        assert (team.session.id, [m.name for m in team.members]) == (own, ["ada"])
        back = team.session.resumed
        assert (back.members, back.tasks, back.repaired) == (("ada",), 1, 0)
        assert str(back).startswith("1 member, 1 open task")
        result = await team.run("Go on.")
    assert result.ok


@pytest.mark.promise("F25", "D8")
async def test_adopt_leads_the_team_from_a_new_session_and_its_members_are_who_they_were(tmp_path):
    own = await leave_a_team(tmp_path)
    before = read_team_file(find_home().team_file("crew"))
    async with again(Team.adopt, tmp_path) as team:
        assert team.session.id != own
        after = read_team_file(find_home().team_file("crew"))
        assert (after.uuid, after.lead.session) == (before.uuid, team.session.id)
        assert after.incarnation_records["ada"].transcript == before.incarnation_records["ada"].transcript
        ada = team.session.team.members["ada"]
        assert any(b"Read the map." in item for item in ada.agent.conversation.items)
        assert [t.subject for t in await team.tasks.all()] == ["wait for the boat"]
    async with again(Team.resume, tmp_path) as team:
        assert team.session.id == after.lead.session, "the new lead's session is the team's from now on"


@pytest.mark.promise("F25")
@pytest.mark.parametrize("how", [Team.resume, Team.adopt])
async def test_a_team_that_is_led_or_unknown_or_anothers_is_refused_and_nothing_is_left(tmp_path, how):
    home = find_home()
    with pytest.raises(TeamwrightError, match="there is no team"):
        async with again(how, tmp_path):
            pass
    async with again(Team, tmp_path):
        with pytest.raises(CannotStart, match="leads the team") as caught:
            async with again(how, tmp_path):
                pass
        assert "teamwright stop crew" in caught.value.do[-1]
    home.team_file("crew").unlink()
    config = home.config("crew")
    config.write_text(config.read_text().replace(session_views(home)[0].id, "another-products-session"))
    sessions = len(session_views(home))
    with pytest.raises(TeamRefused, match="another product's"):
        async with again(how, tmp_path):
            pass
    assert len(session_views(home)) == sessions


@pytest.mark.promise("F25", "P3")
async def test_of_two_that_adopt_a_team_at_once_one_leads_it_and_the_other_leaves_nothing(tmp_path):
    own = await leave_a_team(tmp_path)

    async def lead(done: asyncio.Event) -> str:
        try:
            async with again(Team.adopt, tmp_path) as team:
                await done.wait()
                return team.session.id
        except (CannotStart, TeamRefused) as refused:
            done.set()
            return refused.slug

    done = asyncio.Event()
    async with asyncio.timeout(WAIT_S):
        found = await asyncio.gather(lead(done), lead(done))
    [winner] = [one for one in found if one not in {"session-busy", "team-refused"}]
    assert {view.id for view in session_views(find_home())} == {own, winner}
    assert read_team_file(find_home().team_file("crew")).lead.session == winner


@pytest.mark.finding("T19")
async def test_mail_that_the_ping_pong_guard_keeps_is_delivered_after_a_resume_and_the_lead_knows_of_it(tmp_path):
    sent: list[tuple[str, str]] = []

    def answer(request):
        last = json.loads(request.items[-1])["content"][0]
        if request.agent_name == "team-lead":
            kinds = [item for item in request.items if b'"name":"Agent"' in item]
            return "I see." if kinds else [("TeamCreate", {"team_name": "crew"}), *map(start, ("ada", "ben"))]
        if last["type"] == "tool_result":
            return "sent"
        other = "ben" if request.agent_name == "ada" else "ada"
        sent.append((other, f"Thank you, number {len(sent)}."))
        return ("SendMessage", {"to": other, "message": sent[-1][1], "summary": "thanks"})

    def start(name):
        return ("Agent", {"description": name, "name": name, "prompt": "Be polite."})

    model, home = ScriptedModel(answer), tmp_path / "home"
    given = {"cwd": tmp_path, "home": home, "permission_mode": "bypassPermissions"}
    result = await asyncio.wait_for(run_once("Watch them.", to_session_options({"model": model, **given})), WAIT_S)
    assert result.ok and result.messages_undelivered
    lead = told(model, "team-lead")
    assert lead.count("exchanged 20 messages") == 1 and "are kept" in lead
    kept = [(name, text) for name, text in sent if text not in told(model, name)]
    assert kept
    after = ScriptedModel("ok")
    async with Team.resume("crew", model=after, **given) as team:
        assert {member.name for member in team.members} == {"ada", "ben"}
        await until(team, lambda: {name for name, _ in kept} <= {request.agent_name for request in after.requests})
        assert all(text in told(after, name) for name, text in kept)


async def test_the_error_for_an_archived_team_names_the_session_that_led_it(tmp_path, own_home):
    async with a_team(tmp_path, ScriptedModel("ok"), keep=False) as team:
        await team.run("Go.")
        session = team.session.id
    with pytest.raises(TeamwrightError) as unknown:
        await again(Team.resume, tmp_path).__aenter__()
    assert "crew is in the archive" in unknown.value.do[0]
    assert unknown.value.do[0].endswith(f": teamwright resume {session[:8]}")
    with pytest.raises(TeamwrightError) as no_session:
        find_session_to_resume(find_home(), tmp_path, "crew")
    assert no_session.value.do[0] == unknown.value.do[0]
