"""The teams on disk: made, found, finished, archived; and the file that is only ours."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright.protocol.errors import InvalidName, StorageError, TeamRefused, TeamwrightError
from teamwright.protocol.ids import session_list_name
from teamwright.protocol.mail import IdleNotification, InboxEntry
from teamwright.protocol.members import RosterMember
from teamwright.saved.teams import find_saved_team
from teamwright.storage.file_lease import Lease
from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.archive import archive_team, prune_archive
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.team_records.team_catalogue import NewTeam, Teams, team_directory_name
from teamwright.team_records.team_state import (
    Incarnation,
    LeadLease,
    PendingEnd,
    TeamFile,
    TeamStateFile,
    is_lead_alive,
    parse_team_file,
    read_team_file,
    take_lead,
)
from teamwright.teams.spawn import begin_incarnation

GOLDEN = Path(__file__).parent.parent / "golden"
SESSION = "50101e6d-0000-4000-8000-000000000001"
OTHER = "60101e6d-0000-4000-8000-000000000002"
FILE = TeamFile(
    "0b0d0000-0000-4000-8000-000000000000",
    LeadLease(SESSION, 4711, "/home/x/lease"),
    {"ann": 2, "bob": 1},
    "/home/x/events.jsonl",
    {"ann": Incarnation(2, "/home/x/agents/ann-2.jsonl", "first-id", "call-id", "sonnet", 40)},
    {"bob": PendingEnd("Bob", 1, "shut down on request", "told-id", "shutdown-1@bob", ("3",))},
    {"later": True},
)


@pytest.fixture
def home(tmp_path):
    return Home.at(tmp_path / "home")


@pytest.fixture
def alive():
    """The sessions whose lead lives."""
    return {SESSION}


@pytest.fixture
def teams(home, alive):
    return Teams(home, is_alive=lambda lead: lead.session in alive)


def new(name="My Team_1", session=SESSION, **more):
    return NewTeam(name, LeadLease(session, 1, "/lease"), "/repo", "m-1", 1795214651656, **more)


def tasks_of(home, directory):
    return TaskList(FileTaskStore(home.tasks(directory), home.guard))


@pytest.mark.promise("A1", "A3")
async def test_a_new_team_has_the_observed_roster_a_task_directory_and_a_file_of_ours(teams, home):
    made = await teams.create(new(description="a team", agent_type="boss"))
    config = json.loads(home.config("my-team-1").read_bytes())
    lead = {
        "agentId": "team-lead@My Team_1",
        "name": "team-lead",
        "agentType": "boss",
        "model": "m-1",
        "joinedAt": 1795214651656,
        "tmuxPaneId": "",
        "cwd": "/repo",
        "subscriptions": [],
    }
    assert list(config["members"][0].items()) == list(lead.items())
    del config["members"]
    assert list(config.items()) == [
        ("name", "My Team_1"),
        ("description", "a team"),
        ("createdAt", 1795214651656),
        ("leadAgentId", "team-lead@My Team_1"),
        ("leadSessionId", SESSION),
    ]
    assert made.directory == "my-team-1" and read_team_file(home.team_file("my-team-1")) == made.file
    assert [p.name for p in home.tasks("my-team-1").iterdir()] == [".lock"] and made.archived == ()


@pytest.mark.promise("A1", "A5", "F64")
@pytest.mark.parametrize(
    ("name", "directory"),
    [("../x", "team----x"), ("日本", "team---"), ("con", "team-con"), ("-rf", "team--rf"), ("a b", "a-b")],
)
async def test_any_printable_name_gets_a_directory_that_is_safe(teams, home, name, directory):
    made = await teams.create(new(name))
    assert made.directory == team_directory_name(name) == directory and made.config.name == name
    assert find_saved_team(home, name).directory == directory


@pytest.mark.parametrize("name", ["", "\0", "x" * 101, "a\nb"])
async def test_an_unprintable_name_makes_nothing(teams, home, name):
    with pytest.raises(InvalidName):
        await teams.create(new(name))
    assert not home.shared.exists()


@pytest.mark.promise("A1", "F25")
async def test_the_name_of_a_live_team_is_refused(teams, home, alive):
    await teams.create(new())
    before = home.config("my-team-1").read_bytes()
    alive.add(OTHER)
    with pytest.raises(TeamRefused, match="at work"):
        await teams.create(new(session=OTHER))
    assert home.config("my-team-1").read_bytes() == before and len(await teams.list()) == 1


@pytest.mark.promise("A1", "F25")
@pytest.mark.parametrize("is_alive", [True, False])
async def test_a_team_whose_lead_lives_and_has_not_written_its_file_yet_is_not_archived(teams, home, alive, is_alive):
    await teams.create(new())
    home.team_file("my-team-1").unlink()
    lease = home.session(Path("/repo"), SESSION) / "lease"
    lease.parent.mkdir(parents=True)
    lease.touch()
    alive.clear()
    alive.add(SESSION if is_alive else OTHER)
    if is_alive:
        with pytest.raises(TeamRefused, match="at work"):
            await teams.create(new(session=OTHER))
        assert home.config("my-team-1").exists()
    else:
        made = await teams.create(new(session=OTHER))
        assert len(made.archived) == 1 and made.directory == "my-team-1"


@pytest.mark.promise("A1")
async def test_a_session_leads_one_team(teams):
    await teams.create(new())
    with pytest.raises(TeamRefused, match='leads "My Team_1" already'):
        await teams.create(new("second"))


@pytest.mark.promise("A1", "F64")
async def test_a_directory_that_merely_collides_gets_a_number(teams, home, alive):
    alive.add(OTHER)
    await teams.create(new("my team"))
    made = await teams.create(new("my.team", session=OTHER))
    assert made.directory == "my-team-2"
    assert find_saved_team(home, "my.team").directory == "my-team-2"
    assert find_saved_team(home, "MY TEAM").directory == "my-team"
    assert find_saved_team(home, "my-team-2").name == "my.team"


@pytest.mark.promise("A1", "F25")
async def test_a_finished_team_is_archived_in_silence_and_its_name_is_free(teams, home, alive):
    old = await teams.create(new())
    tasks = tasks_of(home, "my-team-1")
    await tasks.create("done", "", by="ann")
    await tasks.update("1", by="ann", status="completed")
    await Roster(RosterFile(home, "my-team-1")).join(RosterMember("", "ann"))
    alive.clear()
    alive.add(OTHER)
    made = await teams.create(new(session=OTHER))
    (entry,) = made.archived
    assert entry.name == f"my-team-1-{old.file.uuid[:8]}" and (entry / "tasks" / "1.json").exists()
    assert json.loads((entry / "config.json").read_bytes())["leadSessionId"] == SESSION
    assert made.config.lead_session_id == OTHER and made.file.uuid != old.file.uuid
    assert (await tasks_of(home, "my-team-1").create("new", "", by="ann")).id == "1"


def inbox(home, *entries):
    path = home.inbox("my-team-1", "ann")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps([e.to_json() for e in entries]))


IDLE = IdleNotification(sender="ann", timestamp="t")


@pytest.mark.promise("A1", "F25", "P5")
@pytest.mark.parametrize("left", ["task", "mail", "damaged mail", "member"])
async def test_a_dead_leads_team_with_something_open_is_kept_and_what_is_open_is_named(home, alive, left):
    teams = Teams(
        home, is_alive=lambda lead: lead.session in alive, is_member_alive=lambda directory, member: left == "member"
    )
    await teams.create(new())
    await Roster(RosterFile(home, "my-team-1")).join(RosterMember("", "ann"))
    if left == "task":
        await tasks_of(home, "my-team-1").create("open", "", by="ann")
    elif left == "mail":
        inbox(home, InboxEntry("bob", "read", read=True), InboxEntry("bob", "hello"), InboxEntry("bob", IDLE.encode()))
    elif left == "damaged mail":
        inbox(home)
        home.inbox("my-team-1", "ann").write_text('[{"from"')
    alive.clear()
    before = sorted(home.team("my-team-1").rglob("*"))
    with pytest.raises(TeamRefused) as caught:
        await teams.create(new(session=OTHER))
    assert {"task": "1 open task", "member": "1 live member"}.get(left, "1 unread message") in caught.value.what
    assert "teamwright teams adopt 'My Team_1'" in caught.value.do[0] and "--force" in caught.value.do[1]
    assert str(home.team("my-team-1")) in caught.value.looked_at[0]
    assert sorted(home.team("my-team-1").rglob("*")) == before and not home.archive.exists()


async def test_idle_notices_without_content_keep_no_team(teams, home, alive):
    await teams.create(new())
    inbox(home, InboxEntry("ann", IDLE.encode()), InboxEntry("ann", "seen", read=True))
    alive.clear()
    left = await teams.unfinished_work("my-team-1")
    assert left.is_finished and str(left) == "nothing open"


@pytest.mark.promise("A6", "F18")
async def test_an_explicit_team_takes_the_open_tasks_of_the_session_and_old_ones_go_to_the_archive(teams, home):
    own = tasks_of(home, session_list_name(SESSION))
    for name in ("done", "open", "mine"):
        await own.create(name, "", by="team-lead")
    await own.update("1", by="team-lead", lead=True, status="completed")
    stale = tasks_of(home, "my-team-1")
    for _ in range(7):
        await stale.create("stale", "", by="team-lead")
    made = await teams.create(new())
    assert [t.id for t in made.taken_over] == ["2", "3"]
    tasks = tasks_of(home, "my-team-1")
    assert [(t.id, t.subject) for t in await tasks.all()] == [("2", "open"), ("3", "mine")]
    assert len(list((made.archived[0] / "tasks").glob("*.json"))) == 7
    assert (await tasks.create("next", "", by="team-lead")).id == "8"


@pytest.mark.promise("A6")
async def test_the_implicit_team_is_the_sessions_own_and_keeps_its_list(teams, home):
    own = tasks_of(home, session_list_name(SESSION))
    await own.create("before", "", by="team-lead")
    made = await teams.create_implicit(new())
    assert made.directory == made.config.name == "session-50101e6d" and made.taken_over == made.archived == ()
    assert [t.subject for t in await own.all()] == ["before"]
    again = await teams.create_implicit(NewTeam("", LeadLease(SESSION, 99, "/new"), "/repo", "m", 5))
    assert again.config == made.config and again.file.uuid == made.file.uuid and again.file.lead.pid == 99


@pytest.mark.promise("A1")
async def test_a_session_with_members_in_its_own_team_makes_no_second(teams, home):
    made = await teams.create_implicit(new())
    await Roster(RosterFile(home, made.directory)).join(RosterMember("", "ann"))
    with pytest.raises(TeamRefused):
        await teams.create(new())
    await Roster(RosterFile(home, made.directory)).remove("ann")
    assert (await teams.create(new())).directory == "my-team-1"


@pytest.mark.promise("A2", "P5")
async def test_a_deleted_team_is_whole_in_the_archive_and_gone_elsewhere(teams, home):
    made = await teams.create(new())
    await tasks_of(home, "my-team-1").create("open", "", by="ann")
    inbox(home, InboxEntry("bob", "hello"))
    home.requests("my-team-1").mkdir()
    (home.requests("my-team-1") / "r.json").write_text("{}")
    home.doorbell("my-team-1", "ann").parent.mkdir()
    entry = await teams.delete("my-team-1")
    assert entry == home.archive / f"my-team-1-{made.file.uuid[:8]}"
    kept = sorted(str(p.relative_to(entry)) for p in entry.rglob("*") if p.is_file())
    assert kept == ["config.json", "inboxes/ann.json", "requests/r.json", "tasks/.lock", "tasks/1.json", "team.json"]
    assert not home.team("my-team-1").exists() and not home.tasks("my-team-1").exists()
    assert (home.own / "guards" / "teams" / "my-team-1" / "config.json").exists()
    assert not list(entry.rglob("*.lock.lock")) and not (entry / "config.json.lock").exists()
    with pytest.raises(TeamwrightError) as caught:
        await teams.delete("my-team-1")
    assert caught.value.slug == "unknown-team"
    assert not home.team("my-team-1").exists()


@pytest.mark.promise("A2")
async def test_under_a_foreign_root_requests_are_archived_and_only_shared_things_are_shared(tmp_path):
    home = Home.at(tmp_path / ".claude")
    teams = Teams(home, is_alive=lambda lead: False)
    await teams.create(new())
    home.requests("my-team-1").mkdir(parents=True)
    (home.requests("my-team-1") / "r.json").write_text("{}")
    entry = await archive_team(home, "my-team-1")
    assert (entry / "requests" / "r.json").exists() and entry.is_relative_to(home.own)
    assert sorted(p.name for p in home.shared.iterdir()) == ["tasks", "teams", "teamwright"]


@pytest.mark.promise("F25")
async def test_a_team_of_another_product_is_never_taken_for_a_dead_one(tmp_path):
    home = Home.at(tmp_path / ".claude")
    teams = Teams(home, is_alive=lambda lead: False)
    await teams.create(new())
    home.team_file("my-team-1").unlink()
    with pytest.raises(TeamRefused, match="at work"):
        await teams.create(new(session=OTHER))


async def test_what_is_no_team_is_left_out_and_an_unknown_name_gets_the_nearest(teams, home):
    await teams.create(new("review"))
    (home.shared / "teams" / "broken").mkdir()
    (home.shared / "teams" / "broken" / "config.json").write_text("{")
    (home.shared / "teams" / "-odd").mkdir()
    (home.shared / "teams" / "file").write_text("")
    assert [t.directory for t in await teams.list()] == ["review"]
    with pytest.raises(TeamwrightError) as caught:
        find_saved_team(home, "reviw")
    assert caught.value.slug == "unknown-team" and caught.value.do == ("did you mean review?",)
    assert await Teams(Home.at(home.shared / "nowhere")).list() == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("bob", ("did you mean bob@review?",)),
        ("BOB", ("did you mean bob@review?",)),
        ("bobb", ("did you mean bob@review?",)),
        ("reviw", ("did you mean review?",)),
        ("team-lead", ("teamwright teams",)),
        ("zzz", ("teamwright teams",)),
    ],
)
async def test_a_member_s_name_where_a_team_s_should_be_is_answered_with_its_address(teams, home, name, meant):
    made = await teams.create(new("review"))
    await Roster(RosterFile(home, made.directory)).join(RosterMember("", "bob"))
    with pytest.raises(TeamwrightError) as caught:
        find_saved_team(home, name)
    assert caught.value.slug == "unknown-team" and caught.value.do == meant


async def test_the_archive_keeps_what_is_young(teams, home):
    await teams.create(new())
    entry = await teams.delete("my-team-1")
    assert prune_archive(home) == [] and entry.exists()
    os.utime(entry, (0, 0))
    assert prune_archive(home) == [entry] and not entry.exists()


# ── team.json ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("A3")
def test_the_file_of_ours_is_written_as_its_golden_file_and_keeps_later_keys():
    assert FILE.encode() == (GOLDEN / "team_v1.json").read_bytes()
    assert parse_team_file((GOLDEN / "team_v1_without_lives.json").read_bytes()) == replace(
        FILE, incarnation_records={}, pending_ends={}
    )
    assert parse_team_file((GOLDEN / "team_v1.json").read_bytes()) == FILE


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"uuid": "x", "lead": 5}'])
def test_a_damaged_file_of_ours_is_told(raw):
    with pytest.raises(StorageError):
        parse_team_file(raw)


@pytest.mark.promise("F25")
async def test_lives_of_a_name_are_counted_in_any_case_and_a_lead_can_be_bound_anew(teams, home):
    await teams.create(new())
    lives = [await begin_incarnation(TeamStateFile(home, "my-team-1"), n, life) for n in ("ann", "ANN", "bob")]
    assert [one.incarnation for one in lives] == [1, 2, 1]
    dead = LeadLease(OTHER, 0)
    await TeamStateFile(home, "my-team-1").change(lambda file: replace(file, lead=dead))
    await take_lead(TeamStateFile(home, "my-team-1"), LeadLease(OTHER, 7, str(home.shared / "lease")))
    file = read_team_file(home.team_file("my-team-1"))
    assert file.lead.pid == 7 and file.incarnations == {"ann": 2, "bob": 1}
    assert {name: one.incarnation for name, one in file.incarnation_records.items()} == {"ann": 2, "bob": 1}


def life(incarnation: int) -> Incarnation:
    return Incarnation(incarnation, f"/x/{incarnation}.jsonl", "first")


@pytest.mark.promise("F25", "A1")
async def test_a_team_whose_lead_lives_is_not_taken_and_of_two_that_take_a_dead_one_one_is_refused(
    teams, home, tmp_path
):
    await teams.create(new())
    leases = [Lease.take(tmp_path / name, "test") for name in ("one", "two")]
    held = LeadLease(SESSION, 1, str(leases[1].path))
    await TeamStateFile(home, "my-team-1").change(lambda file: replace(file, lead=held))
    with pytest.raises(TeamRefused, match="led by another process"):
        await take_lead(TeamStateFile(home, "my-team-1"), LeadLease(OTHER, 1, str(leases[0].path)))
    await TeamStateFile(home, "my-team-1").change(lambda file: replace(file, lead=LeadLease(SESSION, 0)))
    taking = [
        take_lead(TeamStateFile(home, "my-team-1"), LeadLease(str(n), 1, str(lease.path)))
        for n, lease in enumerate(leases)
    ]
    outcomes = await asyncio.gather(*taking, return_exceptions=True)
    assert sorted(type(one).__name__ for one in outcomes) == ["TeamFile", "TeamRefused"]
    for lease in leases:
        lease.release()


@pytest.mark.promise("D8")
def test_a_life_that_is_over_is_forgotten_with_its_parting_but_not_the_next_life_of_the_name():
    file = FILE.with_incarnation("Bob", Incarnation(2, "/x", "first"))
    assert (
        set(file.without_incarnation("bob", 1).incarnation_records) == {"ann", "bob"}
        and not file.without_incarnation("bob", 1).pending_ends
    )
    assert set(file.without_incarnation("bob", 2).incarnation_records) == {"ann"} and set(
        file.without_incarnation("bob", 2).pending_ends
    ) == {"bob"}


@pytest.mark.promise("F25", "P3")
def test_a_lead_lives_as_long_as_its_lease_is_held(tmp_path):
    lease = tmp_path / "lease"
    lead = LeadLease(SESSION, 1, str(lease))
    assert not is_lead_alive(lead)
    held = Lease.take(lease, "test")
    assert is_lead_alive(lead)
    held.release()
    assert not is_lead_alive(lead)
    assert is_lead_alive(LeadLease(SESSION, os.getpid())) and not is_lead_alive(LeadLease(SESSION, 0))


@pytest.mark.finding("D4")
@pytest.mark.promise("P5")
async def test_a_team_file_of_a_newer_version_is_read_and_never_written(home):
    new = NewTeam("release", LeadLease("50101e6d", 1), "/repo", "m", 1)
    directory = (await Teams(home).create(new)).directory
    path = home.team_file(directory)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    before = path.read_bytes()
    assert read_team_file(path).uuid
    with pytest.raises(StorageError, match="version 2") as caught:
        await TeamStateFile(home, directory).change(lambda file: replace(file, log="x"))
    assert (caught.value.slug, path.read_bytes()) == ("newer-version", before)
    with pytest.raises(StorageError, match="version 3"):
        parse_team_file(b'{"version": 3, "leads": []}')


@pytest.mark.finding("D4")
def test_keys_of_a_later_version_are_kept_in_lives_and_partings_too():
    data = json.loads(FILE.encode())
    for part in ("lives", "partings"):
        for one in data[part].values():
            one["later"] = [1]
    assert json.loads(parse_team_file(json.dumps(data).encode()).encode()) == data
