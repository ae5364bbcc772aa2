"""A whole team whose service refuses: everybody waits together, nobody is lost, nothing is done twice."""

import asyncio
import re

import pytest
from msgspec.structs import replace

from teamwright import Team
from teamwright.models import rate_limit as rate_limiters
from teamwright.models.rate_limit import RateLimiter
from teamwright.models.rate_limit_store import FileRateLimitStore
from teamwright.protocol.events import MemberChanged, Notice
from teamwright.session.wiring import process_assembly as process
from teamwright.storage.paths import find_home
from teamwright.teams.local_teammate import MAX_TRIES
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from teamwright.views.status import status_views
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S

pytestmark = pytest.mark.promise("F60", "P6")

MEMBERS = [f"m{number:02}" for number in range(12)]


def who(body):
    return teammate_of(body) or "lead"


def answered_calls(body):
    return sum(b["type"] == "tool_result" for m in body["messages"] for b in m["content"])


def plays(body):
    """Each member runs one command, then says so."""
    name = who(body)
    if name == "lead":
        return Answer("I wait.")
    if not answered_calls(body):
        return Answer(tools=[("Bash", {"command": f"echo {name} >> ran", "description": "once"})])
    return Answer(f"{name} is done")


@pytest.fixture
def service(monkeypatch, tmp_path):
    """How a run reaches a server: short pauses of our own, and few tries."""

    def set_up(server, retries, longest_s=0.05):
        rate_limiter = RateLimiter(
            backoff_s=0.01, max_backoff_s=0.05, store=FileRateLimitStore(tmp_path / "governors" / "page")
        )
        settled = process.model_settings

        def patient(settings):
            return replace(settled(settings), retries=retries, backoff_s=0.01, backoff_most_s=longest_s)

        monkeypatch.setattr(rate_limiters, "rate_limiter_for", lambda *_: rate_limiter)
        monkeypatch.setattr(process, "model_settings", patient)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test-0000000000000000")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        return rate_limiter

    return set_up


def a_team(tmp_path, **more):
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    return Team("crew", model="haiku", cwd=work, permission_mode="bypassPermissions", **more)


async def spawn_all(team):
    team.session.team.limits.settings = replace(team.session.team.limits.settings, members=20, per_minute=100)
    for name in MEMBERS:
        await team.spawn(name, "Run your command once.")


def ran(tmp_path):
    return sorted((tmp_path / "work" / "ran").read_text().split())


@pytest.mark.slow
async def test_twelve_members_that_are_refused_at_once_all_finish_and_run_nothing_twice(tmp_path, service):
    """The bound: at most one refusal for each of the first wave, and one more for each answer."""
    busy, refused, answers = 0, 0, 0

    async def script(body):
        nonlocal busy, refused, answers
        if refused < len(MEMBERS):
            refused += 1
            return Status(429, retry_after=0.2)
        if busy >= 2:
            refused += 1
            return Status(529)
        busy += 1
        await asyncio.sleep(0)
        busy -= 1
        answers += 1
        return plays(body)

    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server:
        rate_limiter = service(server, retries=10)
        async with a_team(tmp_path) as team:
            await spawn_all(team)
            result = await team.run("Wait for them.")
        assert result.ok, result.error
    assert ran(tmp_path) == MEMBERS
    assert refused <= len(MEMBERS) + 1 + answers
    assert rate_limiter.running_count == 0


@pytest.mark.slow
async def test_members_whose_tries_are_used_up_are_paused_told_once_and_go_on_by_themselves(tmp_path, service):
    asked = dict.fromkeys(MEMBERS, 0)

    def script(body):
        name = who(body)
        if name != "lead":
            asked[name] += 1
        # Everybody's first series is used up, and so is the second one.
        return Status(429) if name != "lead" and asked[name] <= 4 else plays(body)

    seen = []
    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server:
        service(server, retries=1)
        async with a_team(tmp_path) as team:
            team.session.log.subscribe(lambda n, event: seen.append(event))
            await spawn_all(team)
            result = await team.run("Wait for them.")
            told = "\n".join(item.decode() for item in team.session.lead.agent.conversation.items)
        assert result.ok, result.error
    assert ran(tmp_path) == MEMBERS
    for name in MEMBERS:
        states = [(e.state, e.detail) for e in seen if isinstance(e, MemberChanged) and e.member == name]
        assert states.count(("idle", "the rate limit")) == 2
        assert ("failed", "") not in states
        assert told.count(f"{name} is done") == 1
    failures = re.findall(r"It is paused and nothing is lost", told)
    assert len(failures) == len(MEMBERS), "each is told of once, though it was refused twice"
    assert any(isinstance(e, Notice) and "trying again" in e.text for e in seen)


async def test_a_paused_member_shows_on_what_it_waits_and_a_word_makes_it_try_at_once(tmp_path, service):
    refusing = True

    def script(body):
        return Status(429, retry_after=0.01) if refusing and who(body) != "lead" else plays(body)

    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server:
        service(server, retries=0, longest_s=600.0)
        async with a_team(tmp_path) as team:
            ada = await team.spawn("ada", "Run your command once.")
            teammate = team.session.team.find("ada")
            while teammate.rate_limit_pause.due is None or teammate.state != "idle":
                teammate.team_changed.clear()
                await teammate.team_changed.wait()
            [view] = status_views(find_home(), tmp_path / "work")
            [shown] = [(m.state, m.reason) for m in view.members if m.name == "ada"]
            assert shown == ("waiting", "the rate limit")
            assert not team.session.team.is_quiet(), "a run waits for who goes on by itself"
            refusing = False
            await ada.send("Try now.")
            assert (await team.run("Wait for ada.")).ok
    assert ran(tmp_path) == ["ada"]


@pytest.mark.promise("F55")
@pytest.mark.slow
async def test_a_service_that_refuses_for_ever_ends_a_run_that_can_be_gone_on_with(tmp_path, service):
    refusing, asked = True, 0

    def script(body):
        nonlocal asked
        asked += who(body) != "lead"
        return Status(529) if refusing and who(body) != "lead" else plays(body)

    async with asyncio.timeout(WAIT_S), LoopbackModel(script) as server:
        service(server, retries=1)
        async with a_team(tmp_path) as team:
            await team.spawn("ada", "Run your command once.")
            ended = await team.session.end_members(await team.run("Wait for ada."))
            told = "\n".join(item.decode() for item in team.session.lead.agent.conversation.items)
        assert asked == 2 * (MAX_TRIES + 1), "bounded: each try of its own is one series"
        assert "write to it to make it continue" in told
        assert (ended.stop, ended.cut_off, ended.exit_code) == ("cut_off", ("ada",), 5)
        refusing = False
        async with Team.resume("crew", cwd=tmp_path / "work", permission_mode="bypassPermissions") as team:
            assert (await team.run("Go on.")).ok
    assert ran(tmp_path) == ["ada"]
