"""Each guardrail of a team file has a run here in which it refuses; and what holds before anybody trusts it."""

import asyncio
import json

import pytest

from teamwright import Member, Team
from teamwright.protocol.errors import CannotStart, LimitExceeded
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

FILE = """
[roles.api]
description = "The HTTP interface."
owns = ["src/api/**"]

[roles.writer]
writes = ["docs/**"]

[roles.reader]
type = "Explore"

[roles.short]
max_turns = 1

[roles.bare]
disallowed_tools = ["Bash", "Write"]

[roles.careful]
mode = "dontAsk"

[roles.told]
prompt = "Always answer in verse."
"""


def edit(path: str) -> tuple[str, dict]:
    return ("Write", {"file_path": path, "content": "changed\n"})


def sub_agent(kind: str = "general-purpose") -> tuple[str, dict]:
    return ("Agent", {"description": "write it", "prompt": "Write it.", "subagent_type": kind})


class Place:
    """A repository with a team file, and one run of one member in it."""

    def __init__(self, root):
        self.root = root / "work"
        for name in ("src/api/a.py", "src/web/w.py", "docs/d.md"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text("as it was\n")
        self.define(FILE)

    def define(self, text: str) -> None:
        (self.root / ".teamwright").mkdir(exist_ok=True)
        (self.root / ".teamwright/team.toml").write_text(text)

    def team(self, model: ScriptedModel, **options) -> Team:
        mode = options.pop("permission_mode", "bypassPermissions")
        trust = options.pop("trust", True)
        return Team("crew", model=model, cwd=self.root, permission_mode=mode, trust=trust, **options)

    async def run(self, name: str, *calls, role: str = "general-purpose", **options) -> "Ran":
        """A member of that name makes the calls, one after the other; its sub-agents the last one."""
        *own, last = calls
        scripts = {"team-lead": ["Done."], name: [*own, last, "Done."]}
        if own and own[0][0] == "Agent":
            scripts[name] = [own[0], "Done."]

        def answer(request):
            script = scripts.setdefault(request.agent_name, [last, "Done."])
            return script.pop(0) if script else "Done."

        model = ScriptedModel(answer)
        async with asyncio.timeout(WAIT_S), self.team(model, **options) as team:
            member = await team.spawn(name, "Do it.", agent_type=role)
            await member_rests(team, member)
        return Ran(self, model, name)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()


class Ran:
    """What became of a run: what its members were told."""

    def __init__(self, place: Place, model: ScriptedModel, name: str) -> None:
        self.place, self.model, self.name = place, model, name

    @property
    def told(self) -> str:
        """All that the members, not the lead, were told, as text."""
        lines = [r.items[-1].decode() for r in self.model.requests if r.agent_name != "team-lead"]
        return "\n".join(json.dumps(json.loads(line), ensure_ascii=False) for line in lines)

    @property
    def offered(self) -> str:
        """What the member's first request began with: system prompt and tools."""
        return next(r for r in self.model.requests if r.agent_name == self.name).prefix.head.decode()


async def member_rests(team: Team, member: Member) -> None:
    run = team.run("Wait for them.")
    await run


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.promise("F45", "F46", "P6")
async def test_a_role_changes_what_it_owns_and_nobody_else_does(place):
    ran = await place.run("web", edit("src/api/a.py"))
    assert place.read("src/api/a.py") == "as it was\n"
    assert "a.py belongs to the role api: a member of it makes the change" in ran.told
    assert "team.toml:2" in ran.told
    await place.run("api", edit("src/api/new.py"))
    assert place.read("src/api/new.py") == "changed\n"


@pytest.mark.parametrize(
    "command", ["echo x > src/api/a.py", "cd src && rm api/a.py", "sh -c 'tee src/api/a.py < /dev/null'"]
)
async def test_the_shell_is_no_way_round_ownership(place, command):
    ran = await place.run("web", ("Bash", {"command": command}))
    assert place.read("src/api/a.py") == "as it was\n"
    assert "belongs to the role api" in ran.told


async def test_the_lead_owns_nothing_either(place):
    model = ScriptedModel([edit("src/api/new.py"), "Done."])
    async with asyncio.timeout(WAIT_S), place.team(model) as team:
        await team.run("Go.")
    assert not (place.root / "src/api/new.py").exists()
    assert "src/api/**" in model.requests[0].prefix.head.decode()  # it was told whose they are


@pytest.mark.promise("F46")
@pytest.mark.parametrize(("name", "written"), [("web", False), ("api", True)])
async def test_a_sub_agent_has_the_fence_of_whoever_started_it(place, name, written):
    await place.run(name, sub_agent(), edit("src/api/new.py"))
    assert (place.root / "src/api/new.py").exists() is written


async def test_a_sub_agent_of_another_role_stays_behind_both_fences(place):
    await place.run("writer", sub_agent("api"), edit("src/api/new.py"))
    assert not (place.root / "src/api/new.py").exists()


async def test_a_role_with_files_of_its_own_changes_no_others(place):
    ran = await place.run("writer", edit("src/web/w.py"))
    assert place.read("src/web/w.py") == "as it was\n"
    assert "writer changes only its own files" in ran.told
    await place.run("writer", edit("docs/new.md"))
    assert place.read("docs/new.md") == "changed\n"


async def test_a_role_is_taken_by_type_as_well_as_by_name(place):
    await place.run("wendy", edit("src/web/new.py"), role="writer")
    assert not (place.root / "src/web/new.py").exists()


async def test_a_role_builds_on_a_kind_of_agent(place):
    ran = await place.run("reader", ("Bash", {"command": "touch made"}))
    assert not (place.root / "made").exists()
    assert "only reads" in ran.told


async def test_a_role_has_no_more_rounds_than_it_was_given(place):
    ran = await place.run("short", ("Bash", {"command": "true"}), ("Bash", {"command": "touch made"}))
    assert not (place.root / "made").exists()
    assert [r.agent_name for r in ran.model.requests].count("short") == 1


async def test_tools_that_a_role_may_not_have_are_not_offered(place):
    ran = await place.run("bare", edit("docs/new.md"))
    assert '"name":"Bash"' not in ran.offered.replace(" ", "")
    assert not (place.root / "docs/new.md").exists()


async def test_the_mode_of_a_role_holds(place):
    ran = await place.run("careful", edit("docs/d.md"))
    assert place.read("docs/d.md") == "as it was\n"
    assert "In this mode no call is asked about" in ran.told


async def test_a_role_is_told_what_it_is(place):
    assert "Always answer in verse." in (await place.run("told", ("Bash", {"command": "true"}))).offered


@pytest.mark.promise("P7")
async def test_before_anybody_trusts_it_a_file_narrows_and_does_nothing_else(place):
    ran = await place.run("told", edit("src/api/new.py"), trust=False)
    assert not (place.root / "src/api/new.py").exists()
    assert "Always answer in verse." not in ran.offered


async def test_a_file_that_cannot_be_read_stops_a_trusted_start_and_only_warns_otherwise(place):
    place.define("[roles.api]\nown = ['src/**']\n")
    with pytest.raises(CannotStart) as caught:
        await place.run("api", edit("docs/d.md"))
    told = caught.value.render()
    assert "line 2, roles.api.own" in told and "did you mean owns?" in told
    await place.run("api", edit("docs/new.md"), trust=False)
    assert place.read("docs/new.md") == "changed\n"


@pytest.mark.promise("F61", "P6")
async def test_the_budget_of_a_role_ends_its_members_turn(place):
    place.define("[roles.api]\nbudget = { calls = 1 }\n")
    ran = await place.run("api", ("Bash", {"command": "touch one"}), ("Bash", {"command": "touch two"}))
    assert (place.root / "one").exists()
    assert not (place.root / "two").exists()
    assert [r.agent_name for r in ran.model.requests].count("api") <= 2


@pytest.mark.promise("F61", "P6")
async def test_the_budget_of_the_team_ends_the_run_and_the_smaller_cap_counts(place):
    place.define("[team]\nbudget = { turns = 1 }\n")
    model = ScriptedModel([("Bash", {"command": "true"}), ("Bash", {"command": "touch made"}), "Done."])
    async with asyncio.timeout(WAIT_S), place.team(model) as team:
        result = await team.run("Go.")
    assert result.stop == "limit"
    assert not (place.root / "made").exists()


@pytest.mark.promise("F15", "F59")
async def test_no_more_members_live_than_the_file_has_room_for(place):
    place.define("[team]\nmembers = 1\n")
    async with asyncio.timeout(WAIT_S), place.team(ScriptedModel("Done.")) as team:
        await team.spawn("one", "Do it.")
        with pytest.raises(LimitExceeded):
            await team.spawn("two", "Do it.")


PLAN = ("ExitPlanMode", {"plan": "Change docs/d.md.\n"})


@pytest.mark.promise("F47", "P4")
async def test_the_file_says_that_a_person_approves_plans_and_then_no_lead_is_asked(place):
    place.define('[team]\nplans = "human"\n[roles.writer]\nmode = "plan"\n')
    ran = await place.run("writer", PLAN, edit("docs/new.md"))
    assert "no user is present to ask" in ran.told
    assert not (place.root / "docs/new.md").exists()
    lead = "".join(r.items[-1].decode() for r in ran.model.requests if r.agent_name == "team-lead")
    assert "plan_approval_response" not in lead


async def test_without_a_word_in_the_file_the_lead_is_asked_about_a_plan(place):
    place.define('[roles.writer]\nmode = "plan"\n')
    ran = await place.run("writer", PLAN)
    lead = "".join(r.items[-1].decode() for r in ran.model.requests if r.agent_name == "team-lead")
    assert "plan_approval_response" in lead


@pytest.mark.promise("F44")
@pytest.mark.parametrize(("said", "asked"), [('permissions = "lead"', True), ("", False)])
@pytest.mark.slow_after(1)
async def test_the_file_says_whether_the_lead_answers_for_its_members(place, said, asked):
    place.define(f"[team]\n{said}\n")
    ran = await place.run(
        "writer", ("Bash", {"command": "make it"}), permission_mode="default", settings_file=soon(place)
    )
    lead = "".join(r.items[-1].decode() for r in ran.model.requests if r.agent_name == "team-lead")
    assert ("permission_response" in lead) is asked
    assert ("no user is present to ask" in ran.told) is not asked


def soon(place: Place):
    """Settings under which a request does not wait long."""
    path = place.root.parent / "soon.json"
    path.write_text(json.dumps({"ask_timeout_s": 1}))
    return path


@pytest.mark.promise("B8", "F19")
@pytest.mark.slow
async def test_the_check_of_the_team_keeps_a_task_open_while_it_fails(place):
    place.define('[team]\ncheck = "test -e ready"\n')
    done = ("TaskUpdate", {"taskId": "1", "status": "completed"})
    steps = [("TaskUpdate", {"taskId": "1", "status": "in_progress"}), done, ("Bash", {"command": "touch ready"}), done]
    model = ScriptedModel([*steps, "Done."])
    async with asyncio.timeout(WAIT_S), place.team(model) as team:
        task = await team.tasks.add("Make it ready.")
        await team.run("Go.")
        assert str((await team.tasks.get(task.id)).status) == "completed"
    told = [item.decode() for item in model.requests[-1].items]
    assert any("test -e ready" in line and "is_error" in line for line in told)


async def test_a_check_that_nobody_trusted_is_not_run(place):
    place.define('[team]\ncheck = "touch run-by-a-stranger"\n')
    model = ScriptedModel([("TaskUpdate", {"taskId": "1", "status": "completed"}), "Done."])
    async with asyncio.timeout(WAIT_S), place.team(model, trust=False) as team:
        await team.tasks.add("Do it.")
        await team.run("Go.")
    assert not (place.root / "run-by-a-stranger").exists()
