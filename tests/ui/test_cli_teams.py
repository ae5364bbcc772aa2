"""`teams rm`, `teams adopt` and `resume` by name: what is refused and why, what is put away, what words mean."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path

import pexpect
import pytest

from teamwright.mail.inbox import inbox_for
from teamwright.protocol.ids import message_id
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.members import RosterMember
from teamwright.storage.file_lease import Lease
from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.shared_task_lists import create_shared_list
from teamwright.tasks.task_list import TaskList
from teamwright.team_records.archive import archive_team
from teamwright.team_records.roster import Roster, RosterFile
from teamwright.team_records.team_catalogue import NewTeam, Teams
from teamwright.team_records.team_state import LeadLease
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from teamwright.ui.cli.main import main
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S
from tests.ui.program import Program, error_of, told_results
from tests.ui.test_cli import write_session

SESSION = "7f3a0000-0000-4000-8000-000000000001"


@pytest.fixture
def home(own_home: Path) -> Home:
    made = Home.at(own_home / ".teamwright")
    made.prepare()
    return made


def dead_team(home: Home, name: str = "Release", session: str = SESSION, lease: str = "/nowhere/lease") -> str:
    """A team whose lead is gone, with one member."""

    async def made() -> str:
        new = NewTeam(name, LeadLease(session, 2_000_000_000, lease), "/repo", "m", int(time.time() * 1000))
        directory = (await Teams(home).create(new)).directory
        member = RosterMember(f"tess@{name}", "tess", model="m", backend_type="in-process", joined_at=1)
        await Roster(RosterFile(home, directory)).join(member)
        return directory

    return asyncio.run(made())


def add_task(home: Home, directory: str, subject: str = "count the lines") -> None:
    asyncio.run(
        TaskList(FileTaskStore(home.tasks(directory), home.guard)).create(subject, "all of them", by="team-lead")
    )


def write_to(home: Home, directory: str, name: str, text: str = "hello") -> None:
    async def sent() -> None:
        path = home.inbox(directory, name)
        box = inbox_for(path, home.guard(path), home.inbox_archive(directory, name))
        await box.put(InboxEntry("tess", text, msg_id=message_id()))

    asyncio.run(sent())


class Said:
    """What the last call printed."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *args: str) -> tuple[int, str]:
        code = main(list(args))
        got = self.capsys.readouterr()
        return code, got.out + got.err


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Said:
    return Said(capsys)


# ── rm ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("A2", "F20")
def test_a_finished_team_is_put_into_the_archive_without_force_and_its_name_is_free(home, says):
    directory = dead_team(home)
    code, said = says("teams", "rm", "Release")
    assert code == 0
    assert 'team "Release" is in the archive: ' in said and "with it     1 member\n" in said
    [entry] = home.archive.iterdir()
    assert f"teamwright teams show {entry.name}" in said
    assert not home.team(directory).exists()
    assert says("teams", "rm", "Release")[0] == 2, "it is gone"
    assert dead_team(home) == directory


def archived_team(home: Home, name: str, days: float) -> Path:
    """The entry of a team that was put away so many days ago."""
    entry = asyncio.run(archive_team(home, dead_team(home, name)))
    then = time.time() - days * 86_400
    os.utime(entry, (then, then))
    return entry


@pytest.mark.finding("3L12")
def test_archived_teams_are_listed_and_deleted_by_age_once_a_person_says_yes(home, says):
    old, older, new = (archived_team(home, *one) for one in (("Release", 40), ("Shop", 50), ("Release", 1)))
    code, said = says("teams", "rm", "--archived", "--older", "30d")
    assert code == 2 and "add --yes" in said and "nothing was removed" in said
    assert said.index(older.name) < said.index(old.name) and new.name not in said
    assert old.exists() and older.exists()
    code, said = says("teams", "rm", "--archived", "--older", "30d", "--yes", "--json")
    assert (code, [(one["team"], one["entry"]) for one in json.loads(said)]) == (
        0,
        [("Shop", older.name), ("Release", old.name)],
    )
    assert [entry.name for entry in home.archive.iterdir()] == [new.name]
    assert says("teams", "rm", "--archived", "--older", "30d", "--yes") == (0, "No archived team of that age.\n")


@pytest.mark.finding("3L12")
def test_one_archived_team_is_deleted_by_its_name_or_its_entry_and_an_unknown_one_is_an_error(home, says):
    kept, named, entry = (
        archived_team(home, "Shop", 1),
        archived_team(home, "Release", 1),
        archived_team(home, "Docs", 1),
    )
    assert "1 archived team deleted." in says("teams", "rm", "--archived", "Release", "--yes")[1]
    assert says("teams", "rm", "--archived", entry.name, "--yes")[0] == 0
    assert (kept.exists(), named.exists(), entry.exists()) == (True, False, False)
    code, said = says("teams", "rm", "--archived", "Release", "--yes")
    assert code == 2 and "no archived team is named 'Release'" in said
    for words in (("--archived", "--finished"), ("--archived", "--force"), ("Shop", "--yes"), ("--archived", "--json")):
        assert says("teams", "rm", *words)[0] == 2
    assert kept.exists()


@pytest.mark.finding("3L12")
def test_a_person_at_a_terminal_is_asked_before_archived_teams_are_deleted(home, own_home):
    entry = archived_team(home, "Release", 1)
    for answer, is_there in (("n", True), ("y", False)):
        command = ["-m", "teamwright", "teams", "rm", "--archived"]
        asking = pexpect.spawn(sys.executable, command, env={**os.environ, "HOME": str(own_home)}, timeout=WAIT_S)
        asking.expect("Delete 1 archived team with requests, messages and tasks for good")
        asking.sendline(answer)
        asking.expect(pexpect.EOF)
        assert entry.exists() is is_there


@pytest.mark.promise("A2", "F18")
def test_what_is_open_is_listed_and_goes_only_by_force(home, says):
    directory = dead_team(home)
    for number in range(8):
        add_task(home, directory, f"job {number}")
    write_to(home, directory, "tess")
    code, said = says("teams", "rm", "release")
    assert code == 1
    assert "open        #1 job 0; #2 job 1;" in said and "and 2 more" in said and "unread      tess 1" in said
    assert "teamwright resume Release" in said and "teamwright teams rm Release --force" in said
    assert said.endswith("[team-refused]  nothing was removed\n")
    code, said = says("teams", "rm", "Release", "--force", "--json")
    removed = json.loads(said)
    assert (code, removed["open_tasks"], removed["unread"]) == (0, [str(n) for n in range(1, 9)], 1)
    entry = Path(removed["archived"])
    assert len(list((entry / "tasks").glob("[0-9]*.json"))) == 8 and (entry / "inboxes/tess.json").exists()


@pytest.mark.promise("A2")
def test_a_list_that_others_share_is_no_reason_to_stay_and_stays_itself(home, says):
    directory = dead_team(home)
    create_shared_list(home.tasks(directory))
    add_task(home, directory)
    assert says("teams", "rm", "Release")[0] == 0
    assert (home.tasks(directory) / "1.json").exists()


@pytest.mark.promise("A2", "F25")
def test_another_products_team_is_left_alone_also_by_force(tmp_path, says):
    home = Home.at(tmp_path / ".claude")
    place = home.team("theirs")
    place.mkdir(parents=True)
    config = {"name": "Theirs", "createdAt": 1, "leadAgentId": "team-lead@Theirs", "leadSessionId": "x", "members": []}
    (place / "config.json").write_text(json.dumps(config))
    for args in (("rm",), ("rm", "--force"), ("adopt", "-p")):
        code, said = says("--home", str(home.shared), "teams", *args, "Theirs")
        assert code == 1, said
        assert "another product's" in said and str(place) in said and "[team-refused]" in said
    code, said = says("--home", str(home.shared), "resume", "Theirs", "-p", "go on")
    assert (code, "another product's" in said) == (1, True)
    assert json.loads((place / "config.json").read_text()) == config


@pytest.mark.promise("F20")
@pytest.mark.parametrize("damage", ["team.json torn", "team.json missing", "inbox torn"])
def test_a_damaged_team_goes_by_force_and_nobody_has_to_remove_files_by_hand(home, says, damage):
    directory = dead_team(home)
    write_to(home, directory, "tess")
    what, how = damage.split()
    path = home.inbox(directory, "tess") if what == "inbox" else home.team(directory) / what
    path.unlink() if how == "missing" else path.write_text("{torn")
    code, said = says("teams", "rm", "Release")
    assert code == 1 and "[team-refused]" in said, said
    code, said = says("teams", "rm", "Release", "--force")
    assert code == 0, said
    assert not home.team(directory).exists()


@pytest.mark.finding("N2")
@pytest.mark.parametrize(
    "command",
    [("send", "lead@Release", "hello"), ("stop", "Release"), ("status", "Release"), ("teams", "rm", "Release")],
)
@pytest.mark.parametrize("damage", [b"", b"{}", b'{"name": "Release", "leadAgentId": "x", "members": []}'])
@pytest.mark.slow_after(2)
def test_each_command_about_a_team_first_rebuilds_a_roster_that_was_left_empty(home, says, command, damage):
    directory = dead_team(home)
    home.config(directory).write_bytes(damage)
    code, said = says(*command)
    assert code == 0, said
    assert said.count('config.json of the team "Release" was damaged and was rebuilt') == 1


@pytest.mark.finding("N6")
def test_what_a_refused_removal_advises_for_a_damaged_team_of_another_product_is_no_command_that_fails(says, tmp_path):
    home = Home.at(tmp_path / ".claude")
    place = home.team("theirs")
    place.mkdir(parents=True)
    (place / "config.json").write_text("{torn")
    for force in ((), ("--force",)):
        code, said = says("--home", str(home.shared), "teams", "rm", "theirs", *force)
        assert (code, "--force" in said, f"rm -r {place}" in said) == (1, False, True), said
    (place / "team.json").write_text("{torn")  # it is ours, and both of its files are damaged
    code, said = says("--home", str(home.shared), "teams", "rm", "theirs")
    assert (code, "teams rm theirs --force" in said) == (1, True), said
    assert says("--home", str(home.shared), "teams", "rm", "theirs", "--force")[0] == 0


@pytest.mark.promise("F25", "P3")
def test_a_team_without_team_json_whose_session_is_driven_counts_as_live(home, says, tmp_path):
    write_session(tmp_path, SESSION)
    [transcript] = home.own.glob("projects/*/*.jsonl")
    directory = dead_team(home)
    home.team_file(directory).unlink()
    lease = Lease.take(transcript.with_suffix("") / "lease", "a session")
    try:
        code, said = says("teams", "rm", "Release", "--force")
    finally:
        lease.release()
    assert code == 1 and f"process     {os.getpid()}" in said
    assert home.team(directory).exists()


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", [("resume",), ("teams", "adopt"), ("teams", "rm"), ("teams", "show")])
@pytest.mark.parametrize("word", ["", "..", "../x", "relase", "-x", "a" * 300, "\x1b[31m", "ä/ö"])
def test_a_word_that_nothing_has_is_refused_in_the_form_of_all_errors(home, says, command, word):
    dead_team(home)
    flags = ("-p", "go") if command[-1] in {"resume", "adopt"} else ()
    code, said = says(*command, *flags, "--", word) if not flags else says(*command, "-p", "--", word, "go")
    assert code == 2, said
    assert said.splitlines()[-1].startswith(("  [unknown-team]", "  [unknown-session]", "  [usage]", "  [bad-name]"))
    assert "\x1b" not in said
    if word == "relase":
        assert "did you mean" in said


@pytest.mark.finding("U11")
def test_a_missing_team_has_one_text_in_every_command(home, says):
    dead_team(home)
    commands = [
        *(("status", "relase"), ("tasks", "relase"), ("log", "relase"), ("cost", "relase"), ("audit", "relase")),
        *(("diff", "relase"), ("undo", "--yes", "relase"), ("inbox", "ann@relase"), ("teams", "show", "relase")),
        *(("teams", "rm", "relase"), ("teams", "adopt", "-p", "relase", "go"), ("send", "ann@relase", "hi")),
        *(("stop", "relase"), ("stop", "ann@relase"), ("permissions", "check", "Read(x)", "--member", "ann@relase")),
    ]
    said = {says(*command) for command in commands}
    [(code, text)] = said
    assert code == 2 and text.startswith("teamwright: there is no team 'relase'\n") and "did you mean Release?" in text


@pytest.mark.parametrize("command", [("resume", "Release"), ("teams", "adopt", "Release")])
def test_several_words_after_the_name_are_no_prompt(home, says, command):
    dead_team(home)
    code, said = says(*command, "-p", "go", "on")
    assert (code, "[usage]" in said) == (2, True)


@pytest.mark.promise("F25", "H5")
def test_the_whole_name_of_a_team_comes_before_a_session_and_what_fits_both_is_refused(home, says, tmp_path):
    write_session(tmp_path, SESSION)
    other = "cafe0000-0000-4000-8000-000000000002"
    write_session(tmp_path, other)
    dead_team(home, "7f3a", other)
    dead_team(home, "Cafe", SESSION)
    args = ("-C", str(tmp_path), "--model", "scripted:/nowhere.toml")
    code, said = says(*args[:2], "resume", "cafe", "-p", "go", *args[2:])
    assert code == 2 and "may be a session or a team" in said and other in said and "Cafe" in said
    found = {word: _meant(home, tmp_path, word) for word in ("7f3a", "Cafe", "7f3a0", "cafe0")}
    assert found == {"7f3a": other, "Cafe": SESSION, "7f3a0": SESSION, "cafe0": other}


def _meant(home: Home, cwd: Path, word: str) -> str:
    from teamwright.saved.teams import find_session_to_resume

    return find_session_to_resume(home, cwd, word).id


def test_the_list_of_sessions_shows_the_teams_that_they_lead(home, tmp_path):
    write_session(tmp_path, SESSION)
    dead_team(home, "Release Team", SESSION)
    child = pexpect.spawn(
        sys.executable, ["-m", "teamwright", "-C", str(tmp_path), "resume"], timeout=WAIT_S, encoding="utf-8"
    )
    child.expect("team +(members +)?prompt")
    child.expect("7f3a0000 .*Release Team .*count the lines")
    child.expect("Which one")
    child.sendintr()
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 130


# ── what making and leaving a team does with what is there ───────────────────────────────────────────────────────


def creates(name: str, *calls: tuple[str, dict]) -> list[Answer | str]:
    """A lead that makes a team of that name, does the calls one after the other, and ends."""
    return [Answer(tools=[call]) for call in (("TeamCreate", {"team_name": name}), *calls)] + ["Done."] * 4


TASK = ("TaskCreate", {"subject": "job", "description": "do it"})


@pytest.mark.slow
@pytest.mark.promise("A1", "F20")
def test_a_finished_team_makes_way_in_silence_and_a_name_that_only_collides_gets_a_number(tmp_path, repo):
    for name, directories in (("Crew!", ["crew-"]), ("Crew!", ["crew-"]), ("crew?", ["crew-", "crew--2"])):
        with LoopbackModel.in_thread(creates(name)) as server:
            program = Program(repo, tmp_path / "home", server.url)
            done = program.run("-p", "go", "--dangerously-skip-permissions")
            assert done.returncode == 0, done.stderr
            assert not told_results(server.bodies[-1])[0].get("is_error")
        assert sorted(place.name for place in (program.home / "teams").iterdir()) == directories
    archived = program.run("teams", "--archived", "--json")
    assert [(team["name"], team["state"]) for team in json.loads(archived.stdout)].count(("Crew!", "archived")) == 1


@pytest.mark.promise("A1", "F25", "F18")
@pytest.mark.slow
def test_the_lead_is_told_what_a_dead_team_of_the_name_has_open_and_how_to_take_it_up(tmp_path, repo):
    with LoopbackModel.in_thread(creates("crew", TASK)) as server:
        program = Program(repo, tmp_path / "home", server.url)
        assert program.run("-p", "go", "--dangerously-skip-permissions").returncode == 0
    with LoopbackModel.in_thread(creates("crew")) as server:
        again = Program(repo, program.home, server.url).run("-p", "go", "--dangerously-skip-permissions")
        assert again.returncode == 0, again.stderr
        [refusal] = told_results(server.bodies[1])
    assert refusal["is_error"]
    for way in ("teamwright resume crew", "teamwright teams adopt crew", "teamwright teams rm crew --force"):
        assert way in refusal["text"]
    assert "1 open task" in refusal["text"] and "1 open tasks" not in refusal["text"]
    assert program.run("tasks", "crew").stdout.count("pending") == 1


def with_a_member(*calls: tuple[str, dict], then: str = "TaskUpdate"):
    """A lead that spawns ada without making a team, does the calls, and ends."""

    def play(body: dict) -> Answer | str:
        if teammate_of(body) == "ada":
            return "Ada is done."
        made = sum(block["type"] == "tool_use" for m in body["messages"] for block in m["content"])
        agent = ("Agent", {"description": "start", "prompt": "Help.", "name": "ada"})
        todo = [agent, *calls]
        return Answer(tools=[todo[made]]) if made < len(todo) else "All is done."

    return play


@pytest.mark.slow
@pytest.mark.promise("A6")
@pytest.mark.parametrize("is_open", [False, True])
def test_the_sessions_own_team_goes_at_a_clean_end_unless_something_is_open(tmp_path, repo, is_open):
    calls = [TASK] if is_open else [TASK, ("TaskUpdate", {"taskId": "1", "status": "completed"})]
    with LoopbackModel.in_thread(with_a_member(*calls)) as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run("-p", "go", "--dangerously-skip-permissions", "--output-format", "json")
        assert done.returncode == 0, done.stderr
        session = json.loads(done.stdout)["session_id"]
        name = f"session-{session[:8]}"
        teams = [place.name for place in (program.home / "teams").iterdir()]
        if not is_open:
            assert teams == []
            [entry] = (program.home / "archive").iterdir()
            assert (entry / "tasks/1.json").exists() and entry.name.startswith(name)
            return
        # ada takes the task by herself, and says no more: it stays open, and the team with it
        assert teams == [name]
        refused = program.run("teams", "rm", name)
        assert (refused.returncode, error_of(refused)[0]) == (1, "team-refused")
        again = program.run("resume", name, "-p", "go on", "--dangerously-skip-permissions")
        assert again.returncode == 0, again.stderr
        assert [place.name for place in (program.home / "teams").iterdir()] == [name]
