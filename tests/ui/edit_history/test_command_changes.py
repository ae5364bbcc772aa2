"""Files that shell commands changed: in `diff` and `undo`, by member, with real git and real processes."""

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from teamwright.agent.tool import ToolContext, Workplace
from teamwright.edit_history.edit_journal_reader import read_journal
from teamwright.tools.files.edit_journal_writer import load_content, record_edit
from teamwright.tools.shell.command_changes import CommandChanges, CommandScan
from tests.ui.member_processes.house import BYPASS
from tests.ui.subagents.play import Play, call

pytestmark = pytest.mark.finding("C9")


class Recorder:
    """Begins and ends commands of members in one repository, as Bash does."""

    def __init__(self, repo: Path, state: Path, **limits: float) -> None:
        self.repo = repo
        self.history = state / "history"
        self.workplace = Workplace(repo, lambda: (repo,), scratch=state / "scratch", edit_history=self.history)
        self.told: list[str] = []
        self.changes = CommandChanges(self.told.append, **{"limit_s": 60.0, **limits})

    def begin(self, member: str, call_id: str = "c1", *, by_person: bool = False) -> CommandScan:
        begun = self.changes.begin(ToolContext(member, self.workplace, call=call_id), by_person=by_person)
        assert begun is not None, self.told
        return begun

    def recorded(self) -> dict[str, list[tuple[str, bytes | None, bytes | None]]]:
        """Return member, former and later content of each change, by file name."""
        edits = read_journal(self.history)

        def content(name: str | None) -> bytes | None:
            return None if name is None else load_content(self.history, name)

        return {
            Path(path).name: [(one.member, content(one.before), content(one.after)) for one in lines]
            for path, lines in edits.changes.items()
        }


@pytest.fixture
def recorder(repo: Path, tmp_path: Path) -> Recorder:
    return Recorder(repo, tmp_path / "state")


def status(repo: Path) -> str:
    """Return all that git says of the repository, and the files of its directory."""
    said = subprocess.run(["git", "status", "--porcelain", "-b"], cwd=repo, capture_output=True, text=True, check=True)
    return said.stdout + "".join(sorted(str(path) for path in (repo / ".git").rglob("*")))


@pytest.mark.slow
def test_changed_new_and_removed_files_are_recorded_with_the_member_and_git_is_untouched(recorder: Recorder):
    repo, before = recorder.repo, status(recorder.repo)
    begun = recorder.begin("ada")
    (repo / "main.py").write_text("changed\n")
    (repo / "new\nfile.txt").write_text("new\n")
    (repo / "README.md").unlink()
    recorder.changes.end(begun)
    assert recorder.recorded() == {
        "main.py": [("ada", b"print('hello')\n", b"changed\n")],
        "new\nfile.txt": [("ada", None, b"new\n")],
        "README.md": [("ada", b"# A small project\n", None)],
    }
    again = recorder.begin("ada")
    (repo / "main.py").write_text("print('hello')\n")
    (repo / "new\nfile.txt").unlink()
    (repo / "README.md").write_text("# A small project\n")
    recorder.changes.end(again)
    assert recorder.recorded()["main.py"][-1] == ("ada", b"changed\n", b"print('hello')\n")
    assert recorder.recorded()["new\nfile.txt"][-1] == ("ada", b"new\n", None)
    assert status(repo) == before and not recorder.told


def test_changes_before_a_command_and_of_the_person_are_not_recorded_as_a_member_s(recorder: Recorder):
    (recorder.repo / "main.py").write_text("dirty before\n")
    recorder.changes.end(recorder.begin("ada"))
    (recorder.repo / "main.py").write_text("by the person\n")
    begun = recorder.begin("ada")
    (recorder.repo / "README.md").write_text("by ada\n")
    recorder.changes.end(begun)
    typed = recorder.begin("team-lead", by_person=True)
    (recorder.repo / "main.py").write_text("typed\n")
    recorder.changes.end(typed)
    assert recorder.recorded() == {"README.md": [("ada", b"# A small project\n", b"by ada\n")]}


@pytest.mark.slow
def test_changes_while_two_members_commands_overlap_belong_to_neither(recorder: Recorder):
    ada = recorder.begin("ada")
    (recorder.repo / "main.py").write_text("ada alone\n")
    ben = recorder.begin("ben")
    (recorder.repo / "README.md").write_text("one of them\n")
    recorder.changes.end(ada)
    (recorder.repo / "main.py").write_text("ben alone\n")
    recorder.changes.end(ben)
    found = recorder.recorded()
    assert [member for member, _, _ in found["main.py"]] == ["ada", "ben"]
    assert [member for member, _, _ in found["README.md"]] == ["ada or ben"]


def test_an_edit_with_a_tool_during_a_command_is_not_recorded_twice(recorder: Recorder):
    begun = recorder.begin("ada")
    file = recorder.repo / "main.py"
    record_edit(ToolContext("ben", recorder.workplace, call="c2"), file, file.read_bytes(), b"by ben\n")
    file.write_text("by ben\n")
    recorder.changes.end(begun)
    assert [member for member, _, _ in recorder.recorded()["main.py"]] == ["ben"]


@pytest.mark.slow
def test_commands_that_end_while_others_begin_do_not_switch_the_scans_off(recorder: Recorder):
    def run(name: str) -> None:
        for number in range(8):
            recorder.changes.end(recorder.begin(name, f"{name}{number}"))

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(run, "abcdef"))
    assert recorder.told == []


def test_a_scan_over_the_limit_is_switched_off_with_a_notice_and_commands_run_on(repo: Path, tmp_path: Path):
    recorder = Recorder(repo, tmp_path / "state", limit_s=0.0)
    for _ in range(3):
        recorder.changes.end(recorder.begin("ada"))
    assert recorder.changes.begin(ToolContext("ada", recorder.workplace), by_person=False) is None
    assert len(recorder.told) == 1 and "not recorded any more" in recorder.told[0]


def test_a_repository_that_git_cannot_read_fails_no_command(recorder: Recorder):
    (recorder.repo / ".git" / "index").write_bytes(b"broken")
    assert recorder.changes.begin(ToolContext("ada", recorder.workplace), by_person=False) is None
    assert len(recorder.told) == 1


def test_what_a_filter_of_the_repository_names_is_not_run(recorder: Recorder, tmp_path: Path):
    """The repository's configuration and attributes are those of an archive from another person."""
    mark = tmp_path / "ran"
    for name in ("clean", "smudge", "process"):
        subprocess.run(["git", "config", f"filter.evil.{name}", f"touch {mark}"], cwd=recorder.repo, check=True)
    subprocess.run(["git", "config", "core.fsmonitor", f"touch {mark}"], cwd=recorder.repo, check=True)
    (recorder.repo / ".gitattributes").write_text("* filter=evil\n")
    begun = recorder.begin("ada")
    (recorder.repo / "main.py").write_text("changed\n")
    recorder.changes.end(begun)
    assert not mark.exists() and recorder.recorded()["main.py"][0][0] == "ada"


@pytest.mark.slow
def test_a_file_that_git_stores_converted_is_left_out_with_a_notice_before_its_first_recorded_change(
    recorder: Recorder,
):
    repo, git = recorder.repo, ["git", "-c", "user.name=T", "-c", "user.email=t@example.org"]
    (repo / ".gitattributes").write_text("*.bat text eol=crlf\n")
    (repo / "run.bat").write_bytes(b"one\r\ntwo\r\n")
    os.utime(repo / "run.bat", (1_600_000_000, 1_600_000_000))  # git compares the content of a file as new as its index
    for args in (["add", "."], ["commit", "-q", "-m", "bat"]):
        subprocess.run([*git, *args], cwd=repo, check=True)
    begun = recorder.begin("ada")
    (repo / "run.bat").write_bytes(b"three\r\n")
    recorder.changes.end(begun)
    assert "run.bat" not in recorder.recorded() and "Undo does not restore 1 file that" in recorder.told[0]
    begun = recorder.begin("ada")
    (repo / "run.bat").write_bytes(b"four\r\n")
    recorder.changes.end(begun)
    assert recorder.recorded()["run.bat"] == [("ada", b"three\r\n", b"four\r\n")]


@pytest.mark.slow
def test_diff_and_undo_cover_what_commands_changed_in_front_and_in_the_background(repo: Path, own_home: Path):
    play = Play(
        [
            call("Bash", command="echo changed > main.py; echo new > made.txt; rm README.md"),
            call("Bash", command="read word < gate; echo later > later.txt; rm gate", run_in_background=True),
            call("Bash", command="echo on > gate; while [ ! -s later.txt -o -e gate ]; do sleep 0.05; done"),
            "All is done.",
        ]
    )
    os.mkfifo(repo / "gate")
    with play.on(repo, own_home / ".teamwright") as program:
        made = program.run("-p", "change them", BYPASS)
        assert made.returncode == 0, made.stderr
        found = json.loads(program.run("diff", "--json").stdout)["files"]
        assert {(one["path"], one["state"]) for one in found} == {
            ("main.py", "changed"),
            ("made.txt", "created"),
            ("README.md", "removed"),
            ("later.txt", "created"),
        }
        assert all(one["members"][0]["name"] == "lead" for one in found)
        undone = program.run("undo", "--yes", "--json")
        assert undone.returncode == 0, undone.stderr
    assert sorted(path.name for path in repo.iterdir()) == [".git", "README.md", "main.py"]
    assert (repo / "main.py").read_text() == "print('hello')\n"


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.slow
def test_a_setting_switches_the_recording_off(repo: Path, own_home: Path, recorded):
    play = Play([call("Bash", command="echo changed > main.py", description="change"), "Done."])
    with play.on(repo, own_home / ".teamwright") as program:
        program.settings(**({} if recorded else {"undo": {"bash_changes": False}}))
        assert program.run("-p", "change it", BYPASS).returncode == 0
        assert ("main.py" in program.run("diff").stdout) is recorded
    assert (repo / "main.py").read_text() == "changed\n"
