"""The debug log of a session: what a person asked for is in one file, without secrets, and goes with the session."""

import logging
import os
import re
import signal
import stat
from pathlib import Path

import pytest

from teamwright import Team, UsageError
from teamwright.protocol.program_log import CATEGORIES
from teamwright.session.wiring import debug_log
from teamwright.testing import Call, ScriptedModel
from tests.support.waits import WAIT_S
from tests.ui.program import Mark, Program
from tests.ui.test_session_variables import bash, flags, program, turn

pytestmark = [pytest.mark.finding("S5"), pytest.mark.usefixtures("unconfined")]

SKIP = "--dangerously-skip-permissions"
SECRET = "very-secret-token-9876"
LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \[([a-z]+)\] .+")


def crew(tmp_path: Path, repo: Path) -> Program:
    """A lead and a member that run a command each, a hook, and a secret in the environment."""
    made = program(
        tmp_path,
        repo,
        bash("lead", "echo $MY_WORD " + SECRET),
        turn("lead", "Agent", description="look", prompt="Look.", name="bob"),
        bash("bob", "echo look"),
    )
    made.env["MY_SERVICE_TOKEN"] = SECRET
    return made


def log_of(made: Program) -> Path:
    return (made.home / "debug" / "latest").resolve()


def categories_in(path: Path) -> set[str]:
    found = [LINE.fullmatch(line) for line in path.read_text().splitlines()]
    assert all(found), path.read_text()
    return {one[1] for one in found if one is not None}


def test_a_run_has_its_facts_in_a_private_file_without_secrets(tmp_path, repo):
    made = crew(tmp_path, repo)
    made.settings(hooks={"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}, env={"MY_WORD": "x"})
    done = made.run("--debug", *flags(made), SKIP)
    assert done.returncode == 0, done.stderr
    path = log_of(made)
    [session] = [file.stem for file in made.home.glob("projects/*/*.jsonl")]
    assert path.name == f"{session}.txt"
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(path.parent.stat().st_mode)) == (0o600, 0o700)
    wanted = {"model", "tools", "permissions", "sandbox", "processes", "hooks", "team", "settings", "session", "mail"}
    assert wanted <= categories_in(path)
    text = path.read_text()
    assert "team-lead: c1 Bash: allow by" in text and "bob: tool_called" in text and "settings.json sets " in text
    assert SECRET not in text and "…9876" in text
    removed = made.run("sessions", "rm", session, "--force", "--yes")
    assert removed.returncode == 0 and not path.exists(), removed.stderr


def test_only_the_wanted_categories_are_written_and_a_second_run_moves_latest(tmp_path, repo):
    made = crew(tmp_path, repo)
    assert made.run("--debug", "tools,mail", *flags(made), SKIP).returncode == 0
    first = log_of(made)
    assert categories_in(first) == {"tools", "mail"}
    made.env["TEAMWRIGHT_DEBUG"] = "permissions"
    assert made.run(*flags(made), SKIP).returncode == 0
    assert log_of(made) != first and categories_in(log_of(made)) == {"permissions"}
    assert [file.name for file in first.parent.iterdir() if file.name.startswith(".")] == []
    made.env["TEAMWRIGHT_OTEL"] = "1"
    found = made.run("doctor")
    assert "\ntelemetry\n" in found.stdout
    assert "debug log\n" in found.stdout and "latest: permissions" in " ".join(found.stdout.split())


def test_a_member_process_has_its_own_file_which_goes_with_the_session(tmp_path, repo):
    made = crew(tmp_path, repo)
    made.settings(members={"backend": "detached"})
    done = made.run("--debug", *flags(made), SKIP)
    assert done.returncode == 0, done.stderr
    path = log_of(made)
    own = path.with_suffix("") / "bob.txt"
    assert "bob: c" in own.read_text() and "allow by" in own.read_text()
    assert stat.S_IMODE(own.stat().st_mode) == 0o600 and SECRET not in own.read_text()
    assert "bob: tool_called" in path.read_text(), "the lead's log has the events of the whole team"
    assert made.run("projects", "rm", str(repo), "--yes").returncode == 0
    assert not own.parent.exists() and not path.exists()


def test_nothing_is_written_and_nothing_is_loaded_without_a_word_of_the_person(tmp_path, repo):
    made = crew(tmp_path, repo)
    made.env["TEAMWRIGHT_DEBUG"] = "0"
    assert made.run(*flags(made), SKIP).returncode == 0
    assert not (made.home / "debug").exists()


@pytest.mark.parametrize("words", [("--debug=modell",), ("--debug", "model,mc"), ("status", "--debug=modell")])
def test_a_category_that_does_not_exist_is_named_with_those_that_do(tmp_path, repo, words):
    done = crew(tmp_path, repo).run(*words, *(() if "status" in words else ("-p", "go")))
    assert done.returncode == 2 and "no category of the debug log" in done.stderr
    assert ", ".join(CATEGORIES[:4]) in done.stderr


def test_a_word_after_the_flag_that_is_no_category_is_a_command_or_a_prompt(tmp_path, repo):
    made = crew(tmp_path, repo)
    assert made.run("--debug", "teams").returncode == 0
    done = made.run(*flags(made)[2:], SKIP, "-p", "--debug", "hello")
    assert done.returncode == 0 and log_of(made).exists(), done.stderr


async def test_a_program_gets_the_facts_by_logging_and_a_full_file_begins_again(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(debug_log, "MAX_BYTES", 2_000)
    home = tmp_path / "home"
    calls = [Call("Bash", {"command": f"echo {number}"}) for number in range(12)]
    model = ScriptedModel([calls, "Done."])
    common = {"cwd": tmp_path, "home": home, "permission_mode": "bypassPermissions"}
    async with Team("crew", model=model, debug=["tools", "permissions"], **common) as team:
        assert (await team.run("Go.")).text == "Done."
        path = home / "debug" / f"{team.session.id}.txt"
    assert {file.name for file in path.parent.iterdir()} == {path.name, f"{path.name}.1", "latest"}
    assert path.stat().st_size <= 2_000 and os.readlink(path.parent / "latest") == path.name
    assert logging.getLogger("teamwright.tools").level == logging.NOTSET, "it is as before"
    with caplog.at_level(logging.DEBUG, "teamwright.tools"):
        async with Team("crew", model=ScriptedModel([calls[0], "Done."]), replace=True, **common) as team:
            await team.run("Go.")
    facts = [record for record in caplog.records if record.name == "teamwright.tools"]
    assert facts and facts[0].getMessage().startswith("tool_called call=c1 tool=Bash")
    with pytest.raises(UsageError, match="no category"):
        Team("crew", model=model, debug=["tool"], **common)


def test_a_resume_continues_the_log_of_a_killed_process(tmp_path, repo):
    mark = Mark(tmp_path / "mark")
    made = program(tmp_path, repo, bash("lead", f"echo on > {mark.path}; sleep 300"), bash("lead", "echo again"))
    killed = made.start("--debug", *flags(made), SKIP)
    try:
        assert mark.wait() == "on"
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.communicate(timeout=WAIT_S)
    before = log_of(made).read_text()
    assert f"session_opened pid={killed.pid}" in before and "c1 Bash: allow by" in before
    done = made.run("--debug", *flags(made), SKIP, "--continue")
    after = log_of(made).read_text()
    assert after.startswith(before) and after.count("session_opened pid=") == 2, done.stderr
