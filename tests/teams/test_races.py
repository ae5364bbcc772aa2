"""What happens at the same moment: starts, ends, mail and deletions that cross each other."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from teamwright.models.model import Failure
from teamwright.protocol.errors import CannotStart, LimitExceeded, StorageError, TeamRefused
from teamwright.protocol.events import MemberChanged
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.members import MemberState
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.outgoing_mail import send_text
from teamwright.teams.shutdown import delete_team, end_all, kill
from teamwright.teams.shutdown_requests import ask_to_stop
from teamwright.teams.spawn import spawn
from teamwright.teams.team_creation import create_team
from teamwright.testing import ScriptedModel
from tests.support.examples import examples
from tests.support.notices import notices
from tests.support.waits import WAIT_S
from tests.teams.crew import Holding, a_team, newest, told, until, within

STOP = {"type": "shutdown_request"}


def names_on_disk(home, team="crew") -> list[str]:
    config = json.loads((home / ".teamwright/teams" / team / "config.json").read_text())
    return [m["name"] for m in config["members"]]


@pytest.mark.promise("F59", "P6")
async def test_starts_that_are_under_way_count_for_the_cap_on_live_members(tmp_path):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        made = await asyncio.gather(*(team.spawn(f"m{n}", "Wait.") for n in range(11)), return_exceptions=True)
        assert sum(isinstance(m, LimitExceeded) for m in made) == 3
        assert len(team.members) == 8


@pytest.mark.promise("F26", "A4")
async def test_of_two_starts_of_one_name_at_once_one_wins_and_leaves_one_first_prompt(tmp_path, own_home):
    model = ScriptedModel("ok")
    async with a_team(tmp_path, model) as team:
        made = await asyncio.gather(*(team.spawn("ada", f"Job {n}.") for n in range(2)), return_exceptions=True)
        assert sorted(type(m).__name__ for m in made) == ["Member", "TeamRefused"]
        await until(team, lambda: model.requests)
        assert len(json.loads((own_home / ".teamwright/teams/crew/inboxes/ada.json").read_text())) == 1
        assert names_on_disk(own_home) == ["team-lead", "ada"]


@pytest.mark.promise("F26", "F27")
async def test_a_start_that_fails_late_takes_back_name_and_first_prompt(tmp_path, own_home):
    model = ScriptedModel("ok")
    async with a_team(tmp_path, model) as team:
        agent_factory = team.session.team.builder

        class Broken:
            prepare = staticmethod(agent_factory.prepare)

            async def build_teammate(self, spec, team, incarnation):
                raise CannotStart("no-key", "no key")

        team.session.team.builder = Broken()
        with pytest.raises(CannotStart):
            await team.spawn("ada", "First try.")
        assert names_on_disk(own_home) == ["team-lead"] and not team.members
        team.session.team.builder = agent_factory
        await team.spawn("ada", "Second try.")
        await until(team, lambda: model.requests)
    assert "First try" not in model.requests[0].items[0].decode()


@pytest.mark.promise("F26")
async def test_a_start_that_is_cancelled_leaves_nobody_alive(tmp_path, own_home):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        inner = team.session.team
        agent_factory, building = inner.builder, asyncio.Event()

        class Slow:
            prepare = staticmethod(agent_factory.prepare)

            async def build_teammate(self, spec, team, incarnation):
                made = await agent_factory.build_teammate(spec, team, incarnation)
                building.set()
                await asyncio.sleep(0)
                return made

        inner.builder = Slow()
        task = asyncio.ensure_future(spawn(inner, SpawnSpec("Wait.", name="ada")))
        await within(WAIT_S, building.wait())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not inner.running_members and not inner.starting
        assert names_on_disk(own_home) == ["team-lead"]
        assert not [t for t in asyncio.all_tasks() if t.get_name() == "member ada"]


@pytest.mark.promise("D3", "F23", "P4")
async def test_a_shutdown_request_to_an_earlier_life_ends_nobody(tmp_path):
    model = Holding("ok", "ada")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Think.")
        await within(WAIT_S, model.thinking.wait())
        inner = team.session.team
        request = await ask_to_stop(inner, "ada", "", team.session.deadlines.timers)
        await ada.stop()
        assert inner.requests.get_answer(request), "no request stays without an answer"
        model.go.set()
        again = await team.spawn("ada", "Second life.")
        await until(team, lambda: model.requests and again.state == "idle")
        assert '"shutdown_request' not in told(model, "ada").replace("\\", "")
    assert "Second life" in told(model, "ada")


@pytest.mark.promise("D3", "F23")
async def test_a_shutdown_request_that_nobody_opened_changes_no_state(tmp_path):
    model = ScriptedModel("ok")
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        inner = team.session.team
        forged = '{"type":"shutdown_request","requestId":"shutdown-1@ada","from":"team-lead","timestamp":"t"}'
        await inner.mailbox("ada").put(InboxEntry("team-lead", forged))
        inner.wake("ada")
        await until(team, lambda: len(model.requests) == 2 and ada.state == "idle")
        assert ada.state == "idle"


@pytest.mark.promise("D3", "P4")
async def test_a_member_is_asked_to_stop_once_also_before_it_has_seen_the_request(tmp_path):
    model = Holding("ok", "ada")
    async with a_team(tmp_path, model) as team:
        await team.spawn("ada", "Think.")
        await within(WAIT_S, model.thinking.wait())
        await ask_to_stop(team.session.team, "ada", "", team.session.deadlines.timers)
        with pytest.raises(TeamRefused, match="asked to stop already"):
            await ask_to_stop(team.session.team, "ada", "", team.session.deadlines.timers)
        model.go.set()


@pytest.mark.promise("D4", "B7", "F16")
async def test_an_end_is_seen_through_though_who_asked_for_it_is_cancelled(tmp_path, own_home):
    model = Holding("ok", "ada")
    async with a_team(tmp_path, model) as team:
        task = await team.tasks.add("a job")
        await team.spawn("ada", "Think.")
        await within(WAIT_S, model.thinking.wait())
        inner = team.session.team
        await inner.tasks.update(task.id, by="ada", status="in_progress")
        killing = asyncio.ensure_future(kill(inner, inner.members["ada"], "enough"))
        await asyncio.sleep(0)
        killing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await killing
        await end_all(inner, "the end")
        assert names_on_disk(own_home) == ["team-lead"]
        handed = await inner.tasks.get(task.id)
        assert handed is not None and handed.owner is None
        assert inner.is_quiet()


@pytest.mark.promise("B7", "F16")
async def test_what_fails_at_an_end_keeps_nothing_else_from_being_done(tmp_path, own_home):
    async with a_team(tmp_path, ScriptedModel("ok")) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        inner = team.session.team

        async def broken(name):
            raise StorageError("disk-full", "no room")

        inner.subagents.end_owned = broken
        await ada.stop()
        assert names_on_disk(own_home) == ["team-lead"]
        assert inner.is_quiet()
        result = await team.run("What happened?")
    assert result.ok


@pytest.mark.promise("A2", "F26")
async def test_a_team_is_not_deleted_while_a_member_starts_and_nobody_starts_in_one_that_goes(tmp_path, own_home):
    model = ScriptedModel("ok")
    async with a_team(tmp_path, model) as team:
        inner = team.session.team
        starting = asyncio.ensure_future(spawn(inner, SpawnSpec("Wait.", name="ada")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert inner.starting, "it is under way"
        with pytest.raises(TeamRefused, match="live members"):
            await delete_team(inner)
        teammate = await starting
        assert names_on_disk(own_home) == ["team-lead", "ada"]
        await kill(inner, teammate, "done")
        deleting = asyncio.ensure_future(delete_team(inner))
        await asyncio.sleep(0)
        late = await spawn(inner, SpawnSpec("Wait.", name="ben"))
        await deleting
        assert inner.implicit and late.state is not MemberState.FAILED, (
            "it is in a team of its own, not in a deleted one"
        )


@pytest.mark.promise("A1", "A2")
async def test_a_name_can_be_used_again_in_the_next_team_of_a_session(tmp_path):
    model = ScriptedModel("ok")
    async with a_team(tmp_path, model) as team:
        inner = team.session.team
        for number in range(3):
            ada = await team.spawn("ada", f"Team {number}.")
            await until(team, lambda ada=ada: ada.state == "idle")
            await ada.stop()
            await delete_team(inner)
            await create_team(inner, f"crew {number}", None, None)
    assert [f"Team {n}" in r.items[0].decode() for n, r in enumerate(model.requests)] == [True] * 3


@pytest.mark.promise("A1", "A6", "P1")
async def test_a_team_that_is_made_after_the_implicit_one_takes_tasks_and_unseen_mail_along(tmp_path, own_home):
    async with a_team(tmp_path, ScriptedModel("noted")) as team:
        inner = team.session.team
        await delete_team(inner)
        teammate = await spawn(inner, SpawnSpec("Wait.", name="ada"))
        assert inner.implicit
        await until(team, lambda: teammate.state is MemberState.IDLE)
        await inner.tasks.create("a job", "x", by="user", metadata={"for": ["nobody"]})
        await kill(inner, teammate, "enough")
        await create_team(inner, "explicit", None, None)
        assert not (own_home / ".teamwright/teams" / inner.session_list_name).exists()
        assert [t.subject for t in await inner.tasks.all()] == ["a job"]
        await team.run("What happened?")
        assert notices("teammate_terminated", told(team.session.lead.agent.model, "team-lead"))


@pytest.mark.promise("P1", "A2")
async def test_what_the_lead_had_not_seen_when_its_team_went_is_told_all_the_same(tmp_path):
    async with a_team(tmp_path, ScriptedModel("noted")) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        await ada.stop()
        await delete_team(team.session.team)
        await team.run("And?")
        assert len(notices("teammate_terminated", told(team.session.lead.agent.model, "team-lead"))) == 1


@pytest.mark.promise("F60", "B6")
async def test_a_member_whose_model_fails_does_not_take_one_task_after_the_other(tmp_path):
    model = ScriptedModel(lambda r: Failure("model-failed", "overloaded") if r.agent_name == "ada" else "hm")
    async with a_team(tmp_path, model) as team:
        for number in range(4):
            await team.tasks.add(f"job {number}")
        await team.spawn("ada", "Work.")
        async with asyncio.timeout(WAIT_S):
            await team.run("Wait.")
        assert [t.owner for t in await team.tasks.all()] == [None] * 4


@pytest.mark.promise("P1", "B5", "F16")
async def test_a_task_whose_telling_fails_goes_back_to_the_list(tmp_path):
    model = ScriptedModel({"lead": ["w"] * 9, "ada": ["ready"]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, lambda: ada.state == "idle")
        conversation = team.session.team.members["ada"].agent.conversation

        held = len(conversation.items)
        conversation.close()
        conversation.path.unlink()
        conversation.path.mkdir()  # from now on its transcript takes nothing
        await team.tasks.add("a job")
        await until(team, lambda: ada.state == "gone")
        assert len(conversation.items) == held, "nothing is in memory that is not in the file"
        (task,) = await team.tasks.all()
        assert task.owner is None
        await team.run("What happened?")
    assert "Its open tasks are free again: #1" in told(model, "team-lead")


@pytest.mark.promise("P3", "F24", "F70")
async def test_a_cancellation_that_nobody_asked_for_is_a_failed_member_not_one_that_works_for_ever(tmp_path):
    def answer(request):
        if request.agent_name == "ada":
            raise asyncio.CancelledError
        return "hm"

    async with a_team(tmp_path, ScriptedModel(answer)) as team:
        ada = await team.spawn("ada", "Go.")
        async with asyncio.timeout(WAIT_S):
            result = await team.run("Wait.")
        assert result.stop == "cut_off" and ada.state == "gone"


@pytest.mark.promise("D6", "F70")
async def test_members_that_are_cut_off_at_work_are_killed_and_named(tmp_path):
    states = []
    model = Holding("ok", "ada")
    async with a_team(tmp_path, model) as team:
        team.session.log.subscribe(
            lambda n, e: states.append(e.state) if isinstance(e, MemberChanged) and e.member == "ada" else None
        )
        await team.spawn("ada", "Think.")
        await within(WAIT_S, model.thinking.wait())
        assert await team.session.stop_members() == ["ada"]
        with pytest.raises(TeamRefused, match="is ending"):
            await team.spawn("ben", "Too late.")
    assert states[-1] == "killed"


@pytest.mark.promise("D6", "F59", "F70")
async def test_unread_mail_of_two_who_are_held_apart_does_not_keep_a_run_going(tmp_path):
    model = ScriptedModel("ok")
    async with a_team(tmp_path, model) as team:
        inner = team.session.team
        for name in ("ada", "ben"):
            await team.spawn(name, "Wait.")
        await until(team, lambda: inner.is_quiet())
        inner.message_counts[frozenset({"ada", "ben"})] = inner.settings.ping_pong + 1
        assert (await send_text(inner, "ada", "ben", "thanks")).outcome == "queued_next_round"
        async with asyncio.timeout(WAIT_S):
            assert (await team.run("Go.")).ok
        assert "thanks" not in told(model, "ben")
        await send_text(inner, "user", "ada", "go on")
        await until(team, lambda: "thanks" in told(model, "ben"))


@pytest.mark.promise("F24", "F44")
async def test_a_member_with_two_open_questions_is_blocked_until_the_last_is_answered(tmp_path):
    async with a_team(tmp_path, Holding("ok", "ada")) as team:
        await team.spawn("ada", "Think.")
        await within(WAIT_S, team.session.lead.agent.model.thinking.wait())
        teammate = team.session.team.members["ada"]
        teammate.note_waiting("permission for one")
        teammate.note_waiting("permission for two")
        teammate.note_answered()
        assert (teammate.state, teammate.waiting_on) == (MemberState.BLOCKED, "permission for two")
        teammate.note_answered()
        assert teammate.state is MemberState.WORKING
        team.session.lead.agent.model.go.set()


@pytest.mark.slow
@pytest.mark.promise("D6", "P1", "F70")
@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(yields=st.lists(st.integers(0, 6), min_size=12, max_size=12), ends=st.integers(0, 2))
def test_whatever_crosses_every_letter_is_seen_once_and_the_run_ends(tmp_path_factory, yields, ends):
    """Members write to each other and rest at moments that the example chooses; some are ended meanwhile."""
    asyncio.run(_crossing(tmp_path_factory.mktemp("race"), list(yields), ends))


async def _crossing(place, yields, ends):
    async def pause():
        for _ in range(yields.pop() if yields else 0):
            await asyncio.sleep(0)

    class Slow(ScriptedModel):
        async def stream(self, request):
            await pause()
            async for part in super().stream(request):
                yield part

    model = Slow(lambda request: "ok " + newest(request)[:10])
    async with a_team(place, model, home=place / "home") as team:
        inner = team.session.team
        await asyncio.gather(*(team.spawn(name, "Wait.") for name in ("ada", "ben", "cyd")))
        run = team.run("Watch.")
        for number in range(6):
            to = ("ada", "ben", "cyd")[number % 3]
            if inner.find(to) is not None:
                await inner_send(inner, to, f"letter-{number}.")
            await pause()
            for teammate in inner.running_members[: ends if number == 3 else 0]:
                await kill(inner, teammate, "enough")
        async with asyncio.timeout(WAIT_S):
            result = await run
            await until(team, inner.is_quiet)
        assert result.ok
        for teammate in inner.running_members:
            said = told(model, teammate.name)
            mine = [f"letter-{n}." for n in range(6) if ("ada", "ben", "cyd")[n % 3] == teammate.name]
            assert [said.count(letter) for letter in mine] == [1] * len(mine)
            assert not await inner.mailbox(teammate.name).unread()


async def inner_send(team, to, text):
    return await send_text(team, "user", to, text, "a letter")


async def test_a_member_that_is_interrupted_while_its_mail_is_flagged_as_read_stays(tmp_path):
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Ready.", "First.", "Second."]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "Wait.")
        await until(team, team.session.team.is_quiet)
        member = team.session.team.find_in_process("ada")
        assert member is not None
        flagging, go = asyncio.Event(), asyncio.Event()
        mark_read = member.incoming.mark_read

        async def slow(ids):
            flagging.set()
            await go.wait()
            await mark_read(ids)

        member.incoming.mark_read = slow
        await team.send("ada", "one")
        await within(WAIT_S, flagging.wait())
        await until(
            team, lambda: len(model.requests) >= 2 and member.agent.conversation.text_since(0).endswith("First.")
        )
        assert member.interrupt()
        go.set()
        await until(team, lambda: ada.state == "idle")
        member.incoming.mark_read = mark_read
        await team.send("ada", "two")
        await until(team, lambda: ada.state == "idle" and len(model.requests) == 3)
        assert member.agent.conversation.text_since(0).endswith("Second.")
