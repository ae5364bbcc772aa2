"""Permission modes in life: changed while agents run, narrowing those below, told once, kept for a resume."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright import Member, ModeChanged, Team, TeamRefused, UnknownMember, UsageError
from teamwright.agent.plan_mode import REMINDERS, ReminderRole
from teamwright.permissions.verdict import Mode
from teamwright.session.modes_and_grants import FILE, SavedMode, load_mode, save_mode
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

DELEGATE = REMINDERS[ReminderRole.LEAD, Mode.DELEGATE]


class Stop:
    """A tool of the program that holds an agent up until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def hold(self) -> str:
        """Wait for the test."""
        self.reached.set()
        await self.go.wait()
        self.go.clear()
        return "go on"

    async def at(self) -> None:
        """Wait until an agent has called `hold` once more."""
        async with asyncio.timeout(WAIT_S):
            await self.reached.wait()
        self.reached.clear()


class Asked(ScriptedModel):
    """A scripted model of which a test can wait for the N-th request of an agent."""

    def __init__(self, answers) -> None:
        super().__init__(answers)
        self._came = asyncio.Event()

    async def stream(self, request):
        self._came.set()
        async for part in super().stream(request):
            self._came.set()
            yield part

    def of(self, name: str) -> list:
        return [request for request in self.requests if request.agent_name == name]

    async def until(self, name: str, number: int) -> None:
        async with asyncio.timeout(WAIT_S):
            while len(self.of(name)) < number:
                self._came.clear()
                await self._came.wait()


def a_team(tmp_path: Path, model, **more) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    return Team("crew", model=model, cwd=tmp_path / "work", home=tmp_path / "home", **more)


def goes_on(tmp_path: Path, model, **more) -> Team:
    return Team.resume("crew", model=model, cwd=tmp_path / "work", home=tmp_path / "home", **more)


def write(name: str) -> tuple[str, dict]:
    return ("Write", {"file_path": name, "content": "x"})


HOLD = ("python__hold", {})


async def until(team: Team, condition: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            team.session.team.changed.clear()
            if not condition():
                await team.session.team.changed.wait()


def said_to(model: Asked, name: str) -> list[str]:
    """All that this agent was told, a text a line of its conversation."""
    last = model.of(name)[-1]
    messages = [json.loads(item) for item in last.items]
    return [json.dumps(m["content"], ensure_ascii=False) for m in messages if m["role"] == "user"]


async def changes_of(events, number: int):
    async with asyncio.timeout(WAIT_S):
        while number:
            _, event = await anext(events)
            if isinstance(event, ModeChanged):
                number -= 1
                yield event


def roster(tmp_path: Path) -> dict[str, dict]:
    config = json.loads((tmp_path / "home/teams/crew/config.json").read_text())
    return {member["name"]: member for member in config["members"]}


def mail_of(tmp_path: Path, name: str) -> list[dict]:
    return json.loads((tmp_path / f"home/teams/crew/inboxes/{name}.json").read_text())


async def idle(team: Team, member: Member) -> None:
    await until(team, lambda: member.state == "idle" and team.session.team.is_quiet())


# ── narrowing what runs ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G1", "G3", "F46")
async def test_a_lead_that_becomes_stricter_narrows_a_running_member_and_its_sub_agent_at_their_next_call(tmp_path):
    stop = Stop()
    sub = [HOLD, write("by-sub-before"), HOLD, write("by-sub-after"), "sub done"]
    model = Asked(lambda request: script(request))
    steps: dict[str, int] = {}

    def script(request):
        name = "sub" if request.agent_name not in {"team-lead", "ada"} else request.agent_name
        number = steps[name] = steps.get(name, -1) + 1
        job = ("Agent", {"description": "a job", "prompt": "do it", "subagent_type": "general-purpose"})
        return {"sub": sub, "ada": [job, write("by-ada-after"), "done"]}[name][number]

    async with a_team(
        tmp_path, model, permission_mode="acceptEdits", tools=[stop.hold], allowed_tools=[HOLD[0]]
    ) as team:
        ada = await team.spawn("ada", "work")
        await stop.at()
        stop.go.set()
        await stop.at()
        assert (tmp_path / "work/by-sub-before").exists()
        team.set_mode("dontAsk")
        stop.go.set()
        await idle(team, ada)
        assert ada.mode == "dontAsk" == team.mode
    assert not (tmp_path / "work/by-sub-after").exists()
    assert not (tmp_path / "work/by-ada-after").exists()


@pytest.mark.promise("G1", "F46")
async def test_a_mode_that_reaches_further_than_the_leads_is_set_and_the_lead_decides_as_long_as_it_is_stricter(
    tmp_path,
):
    model = Asked({"ada": [write("one"), "not allowed", write("two"), "allowed"]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "work", mode="dontAsk")
        await idle(team, ada)
        made = await ada.set_mode("acceptEdits")
        assert (made.mode, made.held_by) == ("acceptEdits", "default")
        assert "the lead's mode default is stricter" in str(made)
        assert ada.mode == "acceptEdits"
        team.set_mode("acceptEdits")
        await ada.send("once more")
        await until(team, lambda: (tmp_path / "work/two").exists())
        assert (await ada.set_mode("default")).held_by is None
    assert not (tmp_path / "work/one").exists()


@pytest.mark.promise("G3", "F45")
async def test_who_had_the_leads_mode_keeps_the_leads_rules_with_one_of_its_own(tmp_path):
    model = Asked({"ada": ["ready", ("Bash", {"command": "touch made"}), "done"]})
    async with a_team(tmp_path, model, allowed_tools=["Bash(touch made)"]) as team:
        ada = await team.spawn("ada", "work")
        await idle(team, ada)
        await ada.set_mode("dontAsk")
        await ada.send("now")
        await until(team, lambda: (tmp_path / "work/made").exists())


@pytest.mark.promise("G1")
async def test_bypass_is_given_at_the_start_and_never_in_life(tmp_path):
    model = Asked({"ada": ["ready"]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "work")
        await idle(team, ada)
        with pytest.raises(TeamRefused, match="not given while a session runs"):
            team.set_mode("bypassPermissions")
        with pytest.raises(TeamRefused, match="not given while a session runs"):
            await ada.set_mode("bypassPermissions")
        assert (team.mode, ada.mode) == ("default", "default")


@pytest.mark.promise("G1")
async def test_a_session_that_began_in_bypass_may_go_back_to_it_and_a_resume_does_not(tmp_path):
    model = Asked({"ada": ["ready"]})
    async with a_team(tmp_path, model, permission_mode="bypassPermissions") as team:
        team.set_mode("default")
        team.set_mode("bypassPermissions")
        ada = await team.spawn("ada", "work")
        await idle(team, ada)
    async with goes_on(tmp_path, ScriptedModel("ready")) as team:
        assert team.mode == "default"


# ── telling, once, and waking nobody ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("C4", "G1", "F07")
async def test_an_idle_member_is_told_of_its_mode_once_with_its_next_mail_and_not_woken(tmp_path):
    model = Asked({"ada": ["ready", "first", "second"]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "work")
        await idle(team, ada)
        events = team.events()
        await ada.set_mode("plan")
        await ada.set_mode("dontAsk")
        assert roster(tmp_path)["ada"]["mode"] == "dontAsk"
        wire = [json.loads(entry["text"]) for entry in mail_of(tmp_path, "ada")[1:]]
        assert [list(message) for message in wire] == [["type", "from", "mode", "timestamp"]] * 2
        assert [(m["type"], m["from"], m["mode"]) for m in wire] == [
            ("mode_changed", "user", "plan"),
            ("mode_changed", "user", "dontAsk"),
        ]
        assert len(model.requests) == 1 and ada.state == "idle"
        for text in ("first", "second"):
            await ada.send(text)
            await model.until("ada", {"first": 2, "second": 3}[text])
            await idle(team, ada)
        told = said_to(model, "ada")
        assert sum("mode_changed" in line for line in told) == 1 == sum('dontAsk\\"' in line for line in told)
        assert "as default, and what would ask is denied" in told[1]
        changes = [event async for event in changes_of(events, 2)]
        assert [(event.member, event.mode, event.by) for event in changes] == [
            ("ada", "plan", "user"),
            ("ada", "dontAsk", "user"),
        ]
        ids = {entry["msg_id"] for entry in mail_of(tmp_path, "ada")}
        assert not ids & set(team.session.tally.waiting)


@pytest.mark.promise("C4", "B6")
async def test_a_new_mode_is_known_before_the_first_call_of_a_claimed_task(tmp_path):
    model = Asked({"ada": ["ready", "done"]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "work")
        await idle(team, ada)
        await ada.set_mode("dontAsk")
        await team.tasks.add("a job")
        await model.until("ada", 2)
        await idle(team, ada)
        newest = said_to(model, "ada")[-1]
        assert "mode_changed" in newest and newest.index("mode_changed") < newest.index("#1 a job")


@pytest.mark.promise("C4")
async def test_a_busy_member_is_told_before_its_next_model_call(tmp_path):
    stop = Stop()
    model = Asked({"ada": [HOLD, "done"]})
    async with a_team(tmp_path, model, tools=[stop.hold], allowed_tools=[HOLD[0]]) as team:
        ada = await team.spawn("ada", "work")
        await stop.at()
        assert str(await ada.set_mode("dontAsk")) == "ada is in mode dontAsk from its next call on"
        assert "already" in str(await ada.set_mode("dontAsk"))
        stop.go.set()
        await idle(team, ada)
        assert "mode_changed" in said_to(model, "ada")[-1]


@pytest.mark.promise("G1")
async def test_names_and_modes_that_are_none_change_nothing_and_name_the_nearest(tmp_path):
    model = Asked({"ada": ["ready"], "tess": ["ready"]})
    async with a_team(tmp_path, model) as team:
        ada = await team.spawn("ada", "work")
        await idle(team, ada)
        modes = team.session.modes
        with pytest.raises(UsageError) as wrong:
            await modes.set("acceptEdit", "ada")
        assert wrong.value.do == ("did you mean acceptEdits?",)
        with pytest.raises(UnknownMember) as nobody:
            await modes.set("plan", "adda")
        assert "did you mean ada?" in nobody.value.do
        with pytest.raises(UsageError, match="no agent started the lead"):
            await modes.set("bubble")
        await ada.stop()
        with pytest.raises(UnknownMember):
            await ada.set_mode("plan")
        assert (ada.mode, team.mode) == ("", "default")


@pytest.mark.promise("G1", "F65")
async def test_a_lead_makes_a_member_stricter_and_never_wider(tmp_path):
    def send(mode: str, to: str = "ada") -> tuple[str, dict]:
        return ("SendMessage", {"to": to, "message": {"type": "set_mode", "mode": mode}})

    lead = [[send("plan"), send("acceptEdits"), send("bypassPermissions"), send("bubble"), send("plan", "*")], "done"]
    model = Asked({"lead": lead, "ada": ["ready", send("plan", "ben"), "said"], "ben": ["ready"]})
    async with a_team(tmp_path, model, permission_mode="acceptEdits") as team:
        ada, ben = await team.spawn("ada", "work"), await team.spawn("ben", "work")
        await idle(team, ada)
        await idle(team, ben)
        run = team.run("go")
        await model.until("team-lead", 2)
        texts = [block["content"] for block in results_of(model, 1)]
        assert "ada is in mode plan from its next call on." in texts[0]
        assert all("not stricter" in text for text in texts[1:4])
        assert "one member at a time" in texts[4]
        assert ada.mode == "plan"
        run.cancel("enough")
        await run
        await ada.send("try it")
        await until(team, lambda: any("only the lead sets the mode" in line for line in said_to(model, "ada")))
        assert ben.mode == "acceptEdits"


# ── delegate mode ────────────────────────────────────────────────────────────────────────────────────────────────


def results_of(model: Asked, number: int) -> list[dict]:
    request = model.of("team-lead")[number]
    return [block for block in json.loads(request.items[-1])["content"] if block["type"] == "tool_result"]


def spawn(name: str) -> tuple[str, dict]:
    return ("Agent", {"description": "start it", "prompt": "work", "name": name})


READ = ("Read", {"file_path": "secret.txt"})


@pytest.mark.promise("G6", "F45")
async def test_a_lead_that_delegates_spawns_and_coordinates_and_can_read_no_file_until_it_leaves(tmp_path):
    stop = Stop()
    unnamed = ("Agent", {"description": "a job", "prompt": "do it"})
    lead = [
        [("TaskCreate", {"subject": "s", "description": "d"}), spawn("ada"), ("ListAgents", {}), READ, unnamed, HOLD],
        [("Bash", {"command": "ls"}), ("SendMessage", {"to": "ada", "message": "hold"})],
        "I wait.",
        READ,
        "done",
    ]
    model = Asked({"lead": lead, "ada": [write("by-ada"), HOLD, "done", "ok", "ok", "ok"]})
    options = {"permission_mode": "acceptEdits", "tools": [stop.hold], "allowed_tools": [HOLD[0]]}
    async with a_team(tmp_path, model, **options) as team:
        (tmp_path / "work/secret.txt").write_text("the secret")
        assert team.set_mode("delegate").before == "acceptEdits"
        assert team.mode == "delegate"
        run = team.run("go")
        await stop.at()
        await model.until("team-lead", 2)
        assert (tmp_path / "work/by-ada").exists(), "the member is not touched by the lead's restriction"
        first = results_of(model, 1)
        assert [bool(r.get("is_error")) for r in first] == [False, False, False, True, True, True]
        assert all("not for you while you coordinate" in r["content"] for r in first[3:])
        assert first[3]["content"].count("\n") == 1 and "teammate" in first[3]["content"]
        await model.until("team-lead", 3)
        assert team.set_mode("acceptEdits").mode == "acceptEdits"
        assert team.members[0].mode == "acceptEdits"
        stop.go.set()
        await run
    told = said_to(model, "team-lead")
    assert sum(DELEGATE.at_start.split("\n")[0] in line for line in told) == 1, "with the turn that began"
    assert DELEGATE.at_start in json.loads(told[0])[-1]["text"], "behind what the turn begins with"
    short = [line for line in told if DELEGATE.each_call in line]
    assert len(short) == 2 and "<system-reminder key=" in json.loads(short[0])[-1]["text"]
    assert sum(DELEGATE.at_end in line for line in told) == 1
    after = "".join(told[next(n for n, line in enumerate(told) if DELEGATE.at_end in line) :])
    assert "the secret" in after
    assert DELEGATE.each_call not in after


@pytest.mark.promise("G6", "F45")
@pytest.mark.slow
async def test_what_members_have_and_may_do_is_the_same_whether_their_lead_delegates_or_not(tmp_path):
    calls = [
        write("a"),
        ("Bash", {"command": "ls"}),
        ("Bash", {"command": "make"}),
        READ,
        ("Read", {"file_path": "/x"}),
    ]
    seen = []
    for mode in ("acceptEdits", "delegate"):
        place = tmp_path / mode
        place.mkdir()
        model = Asked({"ada": [calls, "done"]})
        async with a_team(place, model, permission_mode="acceptEdits") as team:
            team.set_mode(mode)
            ada = await team.spawn("ada", "work", mode="acceptEdits")
            await idle(team, ada)
            assert ada.mode == "acceptEdits"
        prefix = re.sub(rb'key=\\"\w+', b"key=", model.requests[0].prefix.head)
        answers = [block["content"] for block in json.loads(model.requests[-1].items[-1])["content"]]
        seen.append((prefix.replace(str(place).encode(), b""), [a.replace(str(place), "") for a in answers if a]))
    assert seen[0] == seen[1]


@pytest.mark.promise("G1", "F46", "P7")
@pytest.mark.parametrize("written", ["bypassPermissions", "acceptEdits", None, "auto", 7, ["plan"]])
@pytest.mark.parametrize("mode", ["dontAsk", None])
@pytest.mark.slow_after(1)
async def test_what_another_program_writes_on_the_roster_gives_no_member_another_mode(tmp_path, written, mode):
    async with a_team(tmp_path, ScriptedModel("ready"), permission_mode="acceptEdits") as team:
        ada = await team.spawn("ada", "work", mode=mode)
        await idle(team, ada)
    (config,) = (tmp_path / "home").glob("teams/*/config.json")
    roster = json.loads(config.read_text())
    roster["members"][1]["mode"] = written
    config.write_text(json.dumps(roster))
    async with goes_on(tmp_path, ScriptedModel("ok")) as team:
        assert {m.name: m.mode for m in team.members} == {"ada": mode or "acceptEdits"}
    assert json.loads(config.read_text())["members"][1].get("mode") == mode


@pytest.mark.promise("D8")
@pytest.mark.parametrize(("written", "goes_on_in"), [("dontAsk", "dontAsk"), ("auto", "default"), ("", "default")])
async def test_a_team_of_before_goes_on_in_the_modes_of_its_roster(tmp_path, written, goes_on_in):
    async with a_team(tmp_path, ScriptedModel("ready"), permission_mode="acceptEdits") as team:
        await idle(team, await team.spawn("ada", "work"))
    (config,) = (tmp_path / "home").glob("teams/*/config.json")
    roster, file = json.loads(config.read_text()), json.loads((config.parent / "team.json").read_text())
    roster["members"][1]["mode"] = written
    del file["lives"]["ada"]["mode"]
    config.write_text(json.dumps(roster))
    (config.parent / "team.json").write_text(json.dumps(file))
    async with goes_on(tmp_path, ScriptedModel("ok")) as team:
        assert {m.name: m.mode for m in team.members} == {"ada": goes_on_in}


@pytest.mark.promise("G6", "D8")
async def test_a_team_goes_on_in_the_modes_that_it_was_left_in(tmp_path):
    model = Asked({"ada": ["ready"], "ben": ["ready"]})
    async with a_team(tmp_path, model, permission_mode="acceptEdits") as team:
        ada, ben = await team.spawn("ada", "work"), await team.spawn("ben", "work")
        await idle(team, ada)
        await idle(team, ben)
        await ada.set_mode("dontAsk")
        team.set_mode("delegate")
        assert (ada.mode, ben.mode) == ("dontAsk", "acceptEdits")
    kept = json.loads(next((tmp_path / "home").glob("projects/*/*/mode.json")).read_text())
    assert kept == {"version": 1, "mode": "delegate", "lasting": "acceptEdits"}
    lead = [READ, "done"]
    model = Asked({"lead": lead, "ada": ["ok"] * 3, "ben": ["ok"] * 3})
    async with goes_on(tmp_path, model) as team:
        assert team.mode == "delegate"
        assert {m.name: m.mode for m in team.members} == {"ada": "dontAsk", "ben": "acceptEdits"}
        run = team.run("go")
        await model.until("team-lead", 2)
        assert "not for you while you coordinate" in results_of(model, 1)[0]["content"]
        run.cancel("enough")
        await run
    async with goes_on(tmp_path, ScriptedModel("ok"), permission_mode="default") as team:
        assert team.mode == "default", "what is said now is what holds"
        assert {m.name: m.mode for m in team.members} == {"ada": "dontAsk", "ben": "default"}


@pytest.mark.promise("G1")
def test_the_mode_that_is_kept_has_the_form_that_it_always_had(tmp_path):
    kept = SavedMode(Mode.DELEGATE, Mode.ACCEPT_EDITS)
    save_mode(tmp_path, kept)
    golden = Path(__file__).parent.parent / "golden" / "mode_v1.json"
    assert (tmp_path / FILE).read_bytes() == golden.read_bytes()
    assert load_mode(tmp_path) == kept
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600


@pytest.mark.promise("G1", "P7")
@pytest.mark.parametrize(
    "text", ["", "[]", '{"mode": "bypassPermissions", "lasting": "default"}', '{"mode": "x"}', '{"version": 1, "mode']
)
def test_a_kept_mode_that_cannot_be_is_none(tmp_path, text):
    (tmp_path / FILE).write_text(text)
    assert load_mode(tmp_path) is None


@pytest.mark.promise("G3")
async def test_a_mode_at_spawn_is_obeyed_by_the_tool_and_by_the_program(tmp_path):
    lead = [("Agent", {"description": "start it", "prompt": "work", "name": "ada", "mode": "delegate"}), "done"]
    model = Asked({"lead": lead, "ada": [write("by-ada"), "done"], "ben": [write("by-ben"), "done"]})
    async with a_team(tmp_path, model, permission_mode="acceptEdits") as team:
        run = team.run("go")
        ben = await team.spawn("ben", "work", mode="dontAsk")
        await until(team, lambda: (tmp_path / "work/by-ada").exists())
        await idle(team, ben)
        assert {m.name: m.mode for m in team.members} == {"ben": "dontAsk", "ada": "delegate"}
        run.cancel("enough")
        await run
    assert not (tmp_path / "work/by-ben").exists()
