"""A team whose config.json or team.json was damaged while no lead ran: it is rebuilt from the other files."""

import asyncio
import json
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright import Team
from teamwright.protocol.members import parse_config
from teamwright.storage.paths import Home, find_home
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.team_records.team_state import TeamStateFile, read_team_file
from teamwright.teams.team_recovery import open_recovered_home, recover_teams
from teamwright.testing import ScriptedModel
from tests.support.waits import wait_until
from tests.teams.crew import a_team, told, until
from tests.teams.watched import a_stranger

CHILD = Path(__file__).parents[1] / "storage" / "child.py"


def with_members(*entries: object) -> bytes:
    """A roster that has all keys but these entries."""
    return json.dumps({"name": "crew", "createdAt": 1, "leadAgentId": "team-lead@crew", "members": [*entries]}).encode()


ODD = [
    b"{}",
    b"[]",
    b"null",
    b'{"name": "crew", "createdAt": 1, "leadAgentId": "team-lead@crew", "leadSessionId": "x"}',
    b'{"name": "crew", "leadAgentId": "team-lead@crew", "members": null}',
    b'{"name": "crew", "leadAgentId": "team-lead@crew", "members": {}}',
    b'{"name": 7, "leadAgentId": "team-lead@crew", "members": [{"name": "team-lead", "agentId": "team-lead@crew"}]}',
    with_members(),
    with_members("ada", 3),
    with_members({}),
    with_members({"name": 5, "agentId": "team-lead@crew"}),
    with_members({"name": "team-lead", "agentId": None}),
]
"""Rosters that are valid JSON and no rosters."""


@pytest.fixture
def home(own_home) -> Home:
    return find_home()


async def leave_ada_and_bob(cwd: Path) -> None:
    """A team with two idle members, one of them in plan mode, whose session is closed."""
    async with a_team(cwd, ScriptedModel({"lead": ["ok"] * 9, "ada": ["Read it."], "bob": ["b"]})) as team:
        await team.tasks.add("wait for the boat", metadata={"for": ["nobody"]})
        ada, bob = await team.spawn("ada", "Read the map."), await team.spawn("Bob", "Plan.", agent_type="Explore")
        await until(team, lambda: ada.state == bob.state == "idle" and team.session.team.is_quiet())


async def resumed_members(cwd: Path) -> tuple[list[str], tuple[str, ...]]:
    """Return the members after a resume whose member ada is asked what she read, and the warnings of the session."""
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["Again."], "bob": ["b"]})
    async with Team.resume("crew", model=model, cwd=cwd, permission_mode="bypassPermissions") as team:
        ada = team.session.team.members["ada"]
        await team.send("ada", "What did you read?")
        await until(team, lambda: ada.turns == 1 and ada.state == "idle")
        back = [member.name for member in team.members]
        warnings = team.session.warnings
    assert "Read the map." in told(model, "ada"), "she has her conversation"
    return back, warnings


def killed_inside(file: Path, guard: Path) -> None:
    """A process is killed while it has the lock of this file."""
    argv = [sys.executable, str(CHILD), "die_inside", str(file), str(guard)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == b"inside\n"
        owner.kill()


def roster(home: Home) -> list[dict]:
    """The entries of the roster, without what no file but it tells: prompts that were archived."""
    return json.loads(home.config("crew").read_bytes())["members"]


@pytest.mark.finding("N2")
@pytest.mark.promise("P5", "F04")
@pytest.mark.parametrize("damage", [b"", b'{"name": "crew", "members": [{"na', *ODD])
@pytest.mark.slow_after(1)
async def test_a_resume_rebuilds_a_roster_that_was_left_empty_or_cut(tmp_path, home, damage):
    await leave_ada_and_bob(tmp_path)
    before = parse_config(home.config("crew").read_bytes())
    home.config("crew").write_bytes(damage)
    home.inbox("crew", "zoe").write_bytes(b"[]")  # of a member that another program had added
    back, warnings = await resumed_members(tmp_path)
    assert back == ["ada", "Bob"]
    after = parse_config(home.config("crew").read_bytes())
    assert replace(after, lead_session_id=before.lead_session_id) == before
    assert [copy.read_bytes() for copy in home.team("crew").glob("config.json.bad.*")] == [damage]
    [said] = [w for w in warnings if "was rebuilt from team.json" in w and "config.json.bad." in w]
    assert "without members that other programs had added: zoe (their inboxes are kept)" in said


@pytest.mark.finding("N2")
@pytest.mark.promise("P5", "D8")
@pytest.mark.parametrize("step", ["teams.team_recovery.recover_teams", "teams.team_creation.attach_team"])
@pytest.mark.slow
async def test_a_resume_restores_a_roster_that_is_emptied_after_this_step_of_it(tmp_path, home, monkeypatch, step):
    await leave_ada_and_bob(tmp_path)
    before = parse_config(home.config("crew").read_bytes())
    work = pkgutil.resolve_name(f"teamwright.{step}")

    async def then_empty(*args, **options):
        result = await work(*args, **options)
        home.config("crew").write_bytes(b"")
        return result

    monkeypatch.setattr(f"teamwright.{step}", then_empty)
    back, warnings = await resumed_members(tmp_path)
    assert back == ["ada", "Bob"]
    after = parse_config(home.config("crew").read_bytes())
    assert replace(after, lead_session_id=before.lead_session_id) == before
    assert [w for w in warnings if "was restored from team.json and the transcripts" in w]


@pytest.mark.finding("N2")
@pytest.mark.promise("P5", "F04")
@pytest.mark.slow
async def test_another_process_waits_until_the_living_lead_has_restored_an_emptied_roster(tmp_path, home):
    async with a_team(tmp_path, ScriptedModel({"lead": ["ok"] * 9, "ada": ["ok"]})) as team:
        await team.spawn("ada", "Wait.")
        await until(team, lambda: team.session.team.is_quiet())
        home.config("crew").write_bytes(b"")
        assert (await Roster(RosterFile(home, "crew")).find("ada")).prompt == "Wait."


@pytest.mark.finding("N2", "N6")
@pytest.mark.promise("P5", "A3")
async def test_a_rebuilt_roster_has_the_members_of_other_programs_that_were_still_on_it(tmp_path, home):
    def recorded() -> list[str]:
        return [entry["name"] for entry in read_team_file(home.team_file("crew")).roster["members"]]

    async with a_team(tmp_path, ScriptedModel({"lead": ["ok"] * 9, "ada": ["ok"]})) as team, a_stranger() as stranger:
        await team.tasks.add("wait for the boat", metadata={"for": ["nobody"]})
        await team.spawn("ada", "Wait.")
        for name in ("bob", "cid"):
            await stranger.member(home.config("crew"), name, colour="red")
        await asyncio.to_thread(wait_until, lambda: recorded() == ["team-lead", "bob", "cid"])
        await stranger.without(home.config("crew"), "cid")
        await asyncio.to_thread(wait_until, lambda: recorded() == ["team-lead", "bob"])
        before = {entry["name"]: entry for entry in roster(home)}
    home.config("crew").write_bytes(b"")
    [said] = await recover_teams(home)
    after = {entry["name"]: entry for entry in roster(home)}
    assert list(after) == ["team-lead", "bob", "ada"], "by the time of joining"
    assert {name: entry | before[name] for name, entry in after.items()} == after
    assert "without members" not in said


@pytest.mark.finding("N2")
async def test_a_roster_is_rebuilt_also_where_an_older_version_noted_nothing_of_it(tmp_path, home):
    await leave_ada_and_bob(tmp_path)
    before = {m["name"]: m for m in roster(home)}
    await TeamStateFile(home, "crew").change(
        lambda file: replace(
            file,
            extra={},
            incarnation_records={n: replace(life, entry={}) for n, life in file.incarnation_records.items()},
        ),
    )
    home.config("crew").write_bytes(b"")
    assert len(await recover_teams(home)) == 1
    after = {m["name"]: m for m in roster(home)}
    assert json.loads(home.config("crew").read_bytes())["name"] == "crew"
    for name in ("ada", "Bob"):
        assert {k: after[name][k] for k in ("agentId", "prompt", "cwd", "backendType")} == {
            k: before[name][k] for k in ("agentId", "prompt", "cwd", "backendType")
        }


@pytest.mark.finding("D5")
@pytest.mark.promise("P5")
@pytest.mark.parametrize("damage", [None, b"", b'{"version": 1, "uu'])
async def test_a_resume_rebuilds_a_team_file_that_is_gone_or_damaged_and_says_so(tmp_path, home, damage):
    await leave_ada_and_bob(tmp_path)
    before = read_team_file(home.team_file("crew"))
    home.team_file("crew").unlink()
    if damage is not None:
        home.team_file("crew").write_bytes(damage)
    back, warnings = await resumed_members(tmp_path)
    assert back == ["ada", "Bob"]
    after = read_team_file(home.team_file("crew"))
    assert (after.lead.session, after.log, after.incarnations) == (
        before.lead.session,
        before.log,
        before.incarnations,
    )
    assert {n: (life.transcript, life.first, life.incarnation) for n, life in after.incarnation_records.items()} == {
        n: (life.transcript, life.first, life.incarnation) for n, life in before.incarnation_records.items()
    }
    was = "missing" if damage is None else "damaged"
    assert [w for w in warnings if f"was {was} and was rebuilt from config.json" in w]


@pytest.mark.finding("D5", "N2")
async def test_a_team_of_a_living_lead_and_one_of_another_product_are_left_alone(tmp_path, home):
    async with a_team(tmp_path, ScriptedModel({"lead": ["ok"] * 9})):
        home.config("crew").write_bytes(b"")
        assert await recover_teams(home) == ()
    home.team_file("crew").unlink()
    foreign = home.team("theirs")
    foreign.mkdir()
    (foreign / "config.json").write_bytes(parse_config(CONFIG).encode())
    await recover_teams(home)
    assert not (foreign / "team.json").exists()


LEADER = {"agentId": "team-lead@theirs", "name": "team-lead"}
CONFIG = json.dumps(
    {
        "name": "theirs",
        "createdAt": 1,
        "leadAgentId": "team-lead@theirs",
        "leadSessionId": "50101e6d",
        "members": [LEADER],
    }
).encode()


@pytest.mark.finding("N5")
@pytest.mark.promise("F29")
async def test_a_resume_removes_the_lock_that_a_killed_process_left_on_an_inbox(tmp_path, home):
    await leave_ada_and_bob(tmp_path)
    inbox = home.inbox("crew", "team-lead")
    await asyncio.to_thread(killed_inside, inbox, home.guard(inbox))
    assert (lock := inbox.with_name("team-lead.json.lock")).exists()
    model = ScriptedModel({"lead": ["ok"] * 9, "ada": ["a"], "bob": ["b"]})
    async with Team.resume("crew", model=model, cwd=tmp_path, permission_mode="bypassPermissions"):
        assert not lock.exists()


@pytest.mark.finding("N5", "T24")
@pytest.mark.parametrize("word", ["crew", "Crew", "ada@crew", "crew-2"])
@pytest.mark.slow
async def test_a_command_that_names_a_team_repairs_that_team_alone(tmp_path, home, word):
    await leave_ada_and_bob(tmp_path)
    others = ["crew-2", "crew-two", "other"]
    for other in others:
        shutil.copytree(home.team("crew"), home.team(other))
    for directory in ("crew", *others):
        home.config(directory).write_bytes(b"")
        await asyncio.to_thread(killed_inside, home.inbox(directory, "ada"), home.guard(home.inbox(directory, "ada")))
    named = {"crew-2"} if word == "crew-2" else {"crew", "crew-2"}
    _, said = await asyncio.to_thread(open_recovered_home, None, word)
    assert len(said) == len(named)
    assert {name for name in ("crew", *others) if home.config(name).read_bytes()} == named
    locked = {path.parts[-3] for path in (home.shared / "teams").glob("*/inboxes/*.lock")}
    assert locked == {"crew", *others} - named
    _, rest = await asyncio.to_thread(open_recovered_home, None, "50101e6d")
    assert len(said) + len(rest) == 4, "the id of a session may be that of any team's"
