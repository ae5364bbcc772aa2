"""`teamwright diff` and `teamwright undo` on what a real team did, wherever its members lived."""

import json
import os
import signal
import subprocess
from itertools import chain
from pathlib import Path

import pexpect
import pytest

from teamwright.testing.model_server_replies import Answer
from tests.support.waits import WAIT_S, wait_until
from tests.ui.member_processes.house import BYPASS
from tests.ui.program import COMMAND, Program, error_of, words_of
from tests.ui.subagents.play import Play, agent, call

pytestmark = pytest.mark.promise("K6", "P5")


def edit(file: str, old: str, new: str) -> Answer:
    return call("Edit", file_path=file, old_string=old, new_string=new)


def a_team() -> Play:
    """The lead and ada change one file, a sub-agent of ada's makes another; the second prompt makes a third."""
    lead = [
        call("Read", file_path="main.py"),
        edit("main.py", "hello", "hello from lead"),
        agent("JOB ada", name="ada"),
    ]
    ada = [
        call("Read", file_path="main.py"),
        edit("main.py", "hello from lead", "hello from both"),
        agent("JOB sub"),
        "ada's report.",
    ]
    sub = [call("Write", file_path="docs/deep/made.md", content="# Made\n"), "made it"]
    return Play(chain(lead, ["I wait."] * 6), ada=ada, sub=sub)


@pytest.fixture(params=["in-process", "detached"])
def done(repo: Path, own_home: Path, request: pytest.FixtureRequest):
    """A team that has done its work, and the program."""
    play = a_team()
    with play.on(repo, own_home / ".teamwright") as program:
        program.settings(members={"backend": request.param})
        ended = program.run("-p", "change it all", BYPASS, timeout=WAIT_S)
        assert ended.returncode == 0, ended.stderr
        assert (repo / "main.py").read_text() == "print('hello from both')\n"
        play.lead[:] = ["I see."] * 3
        yield program, play


def diff(program: Program, *args: str) -> str:
    shown = program.run("diff", *args)
    assert shown.returncode == 0, shown.stderr
    return shown.stdout


def undo(program: Program, *args: str) -> dict:
    made = program.run("undo", "--yes", "--json", *args)
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


@pytest.mark.slow_after(1)
def test_diff_shows_who_changed_what_and_undo_takes_it_back_and_the_lead_is_told(done, repo):
    program, play = done
    [sub] = [path.stem for path in program.home.glob("projects/*/*/agents/*.jsonl") if path.stem != "ada"]
    shown = diff(program)
    assert "main.py  +1 -1  lead 1 edit, ada 1 edit\n--- a/main.py\n+++ b/main.py\n@@ -1 +1 @@\n" in shown
    assert "-print('hello')\n+print('hello from both')\n" in shown
    assert f"docs/deep/made.md (created)  +1 -0  {sub} (of ada) 1 edit\n--- /dev/null\n" in shown
    total = f"2 files, +2 -1; lead 1 edit, ada 1 edit, {sub} (of ada) 1 edit\n"
    assert shown.endswith(f"{total}changes by shell commands are covered, but not to files that git ignores\n")
    assert "\x1b" not in shown
    hers = diff(program, "--member", "ada")
    assert "-print('hello from lead')\n+print('hello from both')\n" in hers and "made.md" in hers
    assert "made.md" not in diff(program, "--member", "lead")
    stat = json.loads(diff(program, "--stat", "--json"))
    assert [(file["path"], file["added"], file["diff"]) for file in stat["files"]] == [
        ("main.py", 1, ""),
        ("docs/deep/made.md", 1, ""),
    ]

    made = undo(program)
    assert made["prompt"] == "change it all"
    assert [(file["path"], file["did"]) for file in made["files"]] == [
        ("main.py", "restored"),
        ("docs/deep/made.md", "removed"),
    ]
    assert (repo / "main.py").read_text() == "print('hello')\n" and not (repo / "docs").exists()
    assert subprocess.run(["git", "status", "--porcelain"], cwd=repo, capture_output=True, text=True).stdout == ""
    assert diff(program).startswith("Nothing is changed by session")
    refused = program.run("undo", "--yes")
    assert (refused.returncode, error_of(refused)[0]) == (1, "undo-refused")

    again = program.run("-c", "-p", "and now?", BYPASS)
    assert again.returncode == 0, again.stderr
    told = words_of(play.asked()[-1])
    assert 'The user took back the edits of the prompt "change it all": main.py, docs/deep/made.md.' in told
    assert told.index("took back") < told.index("and now?")


@pytest.mark.slow
def test_only_a_members_edits_and_those_of_its_sub_agents_are_taken_back(done, repo):
    program, _ = done
    made = undo(program, "--member", "ada")
    assert [(file["path"], file["did"]) for file in made["files"]] == [
        ("main.py", "restored"),
        ("docs/deep/made.md", "removed"),
    ]
    assert (repo / "main.py").read_text() == "print('hello from lead')\n"
    assert "main.py  +1 -1  lead 1 edit" in diff(program, "--stat").replace("  1 edit", " 1 edit")


@pytest.fixture
def edited(repo: Path, own_home: Path):
    """A session in which the lead has edited two files for one prompt, one of them again for the next."""
    play = Play(
        [
            call("Read", file_path="main.py"),
            edit("main.py", "hello", "first"),
            call("Write", file_path="new.txt", content="new\n"),
            "First.",
            call("Read", file_path="main.py"),
            edit("main.py", "first", "second"),
            "Second.",
        ]
    )
    with play.on(repo, own_home / ".teamwright") as program:
        assert program.run("-p", "make it first", BYPASS).returncode == 0
        assert program.run("-c", "-p", "make it second", BYPASS).returncode == 0
        yield program, play


@pytest.mark.slow
def test_after_a_resume_each_undo_takes_back_one_prompt_and_an_old_reading_is_refused(edited, repo):
    program, play = edited
    assert undo(program)["prompt"] == "make it second"
    assert (repo / "main.py").read_text() == "print('first')\n"
    play.lead[:] = [edit("main.py", "second", "third"), "Refused."]
    assert program.run("-c", "-p", "make it third", BYPASS).returncode == 0
    assert "You have not read" in play.results()[-1]
    assert undo(program)["prompt"] == "make it first"
    assert (repo / "main.py").read_text() == "print('hello')\n" and not (repo / "new.txt").exists()


@pytest.mark.slow
def test_a_file_that_changed_since_is_named_and_stays_while_the_others_are_taken_back(edited, repo):
    program, _ = edited
    undo(program)
    (repo / "main.py").write_text("mine\n")
    shown = diff(program, "--stat")
    assert "main.py" in shown and "changed since by something else" in shown
    done = program.run("undo", "--yes")
    assert done.returncode == 0 and "left       main.py  (it changed since)" in done.stdout
    assert not (repo / "new.txt").exists() and (repo / "main.py").read_text() == "mine\n"


@pytest.mark.slow
def test_a_person_is_shown_what_would_be_done_and_may_say_no(edited, repo):
    program, _ = edited
    for answer, content in (("n", "second"), ("y", "first")):
        env = {**program.environment, "TERM": "xterm-256color"}
        child = pexpect.spawn(
            COMMAND[0], [*COMMAND[1:], "undo"], cwd=str(repo), env=env, encoding="utf-8", timeout=WAIT_S
        )
        child.expect_exact("[y/N]")
        assert 'prompt   "make it second"' in child.before and "restore  main.py  lead" in child.before
        assert "shell commands" in child.before
        child.sendline(answer)
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 0
        assert (repo / "main.py").read_text() == f"print('{content}')\n"


@pytest.mark.slow
def test_colours_are_for_a_terminal_that_wants_them(edited, repo):
    program, _ = edited
    for more, colours in (({}, True), ({"NO_COLOR": "1"}, False)):
        env = {**{k: v for k, v in program.environment.items() if k != "NO_COLOR"}, "TERM": "xterm-256color", **more}
        child = pexpect.spawn(
            COMMAND[0], [*COMMAND[1:], "diff"], cwd=str(repo), env=env, encoding="utf-8", timeout=WAIT_S
        )
        child.expect(pexpect.EOF)
        child.close()
        assert ("\x1b[31m-print('\x1b[0m\x1b[7;31mhello\x1b[0m\x1b[31m')\x1b[0m" in child.before) is colours
        assert ("\x1b[" in child.before) is colours


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "code", "slug"),
    [
        (("diff", "no-such-team"), 2, "unknown-team"),
        (("diff", "--member", "nobody"), 2, "unknown-member"),
        (("diff", "--call", "c99"), 2, "usage"),
        (("diff", "--call", "c2", "--stat"), 2, "usage"),
        (("undo", "--yes", "no-such-team"), 2, "unknown-team"),
        (("undo", "--yes", "--member", "nobody"), 2, "unknown-member"),
        (("undo", "--yes", "--except", "mian.py"), 2, "usage"),
        (("undo",), 2, "usage"),
    ],
)
def test_bad_input_is_an_error_that_says_so_and_changes_nothing(edited, repo, args, code, slug):
    program, _ = edited
    refused = program.run(*args)
    assert (refused.returncode, error_of(refused)[0]) == (code, slug)
    assert (repo / "main.py").read_text() == "print('second')\n"


@pytest.mark.slow
def test_without_a_session_here_both_say_so(repo, own_home):
    program = Program(repo, own_home / ".teamwright")
    for command in (("diff",), ("undo", "--yes")):
        refused = program.run(*command)
        assert (refused.returncode, error_of(refused)[0]) == (2, "unknown-session")


@pytest.mark.slow
def test_a_session_that_edited_nothing_has_nothing_to_undo(repo, own_home):
    with Play(["Hello."]).on(repo, own_home / ".teamwright") as program:
        assert program.run("-p", "hello").returncode == 0
        refused = program.run("undo", "--yes")
        assert error_of(refused)[0] == "undo-refused" and "no file was changed" in refused.stderr
        assert diff(program).startswith("Nothing is changed")


@pytest.mark.slow
def test_an_agents_command_takes_nothing_back(edited, repo):
    program, _ = edited
    program.env["TEAMWRIGHT"] = "1"
    refused = program.run("undo", "--yes")
    assert error_of(refused)[0] == "not-for-agents"
    assert (repo / "main.py").read_text() == "print('second')\n"


@pytest.mark.slow
def test_one_call_is_shown_by_its_number(edited):
    program, _ = edited
    shown = diff(program, "--call", "c2")
    assert "-print('hello')\n+print('first')\n" in shown and "second" not in shown


@pytest.mark.slow
def test_what_a_file_says_does_not_steer_the_terminal(edited, repo):
    program, play = edited
    play.lead[:] = [call("Write", file_path="evil\x1b[2J.txt", content="\x1b[31mred\x07\n"), "Done."]
    assert program.run("-c", "-p", "go on", BYPASS).returncode == 0
    for args in ((), ("--stat",), ("--json",)):
        assert not set(diff(program, *args)) & {"\x1b", "\x07"}


@pytest.mark.slow
def test_while_a_process_drives_the_session_undo_is_refused_and_names_it(repo, own_home):
    os.mkfifo(repo / "gate")
    play = Play([call("Write", file_path="new.txt", content="x"), call("Bash", command="cat gate"), "Done."])
    with play.on(repo, own_home / ".teamwright") as program:
        lead = program.start("-p", "work", BYPASS)
        try:
            play.comes_back(2)
            assert "new.txt (created)" in diff(program)
            refused = program.run("undo", "--yes")
            slug, lines = error_of(refused)
            assert (refused.returncode, slug) == (3, "session-busy")
            assert f"process {lead.pid}" in lines[0] and any("/undo" in line for line in lines)
            assert (repo / "new.txt").exists()
            lead.kill()
            lead.communicate(timeout=WAIT_S)
            assert undo(program)["prompt"] == "work"
            assert not (repo / "new.txt").exists()
        finally:
            lead.kill()
            lead.communicate(timeout=WAIT_S)
            os.close(os.open(repo / "gate", os.O_RDWR))  # lets the command go that outlived its program


FILES = 150


@pytest.mark.slow
def test_a_kill_of_the_command_leaves_whole_files_and_the_next_one_completes_it(repo, own_home):
    writes = [("Write", {"file_path": f"f{n}.txt", "content": f"new {n}\n" * 300}) for n in range(FILES)]
    with Play([Answer(tools=writes), "Done."]).on(repo, own_home / ".teamwright") as program:
        assert program.run("-p", "make many", BYPASS).returncode == 0
        whole = {file.name: file.read_text() for file in repo.glob("f*.txt")}
        assert len(whole) == FILES
        [journal] = program.home.glob("projects/*/*/history/edits.jsonl")
        begun = journal.stat().st_size
        killed = program.start("undo", "--yes")
        wait_until(lambda: journal.stat().st_size >= begun + 30_000 or killed.poll() is not None)
        killed.send_signal(signal.SIGKILL)
        killed.communicate(timeout=WAIT_S)
        left = {file.name: file.read_text() for file in repo.glob("f*.txt")}
        assert left == {name: whole[name] for name in left}
        if left:  # otherwise the kill met a command that had nothing more to do than to record its end
            assert undo(program)["completed"]
        assert not list(repo.glob("f*.txt"))
