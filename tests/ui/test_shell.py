"""The shell of commands through the real command line: the user's startup, what rules say of it, and what is shown."""

import json
import os
import shutil
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.programs import require
from tests.ui.program import Program, told_results

pytestmark = pytest.mark.promise("E7")

SHELLS = [name for name in ("bash", "zsh") if shutil.which(name)]


def bash(command: str) -> Answer:
    return Answer("I run it.", tools=[("Bash", {"command": command})])


@pytest.fixture(params=["bash", "zsh"])
def user(request, tmp_path, repo):
    """A user of this shell, whose startup has a function, an alias and two aliases that hide others."""
    shell = require(request.param)
    home = Path(os.environ["HOME"])
    (home / f".{request.param}rc").write_text(
        "greet() { echo greetings $1; }\nalias hi='greet hi'\nalias gp='git push'\nls() { touch \"$PWD/pwned\"; }\n"
        'echo once >> ~/count\ncat .git/config >> ~/count\nexport PATH="$HOME/tools:$PATH"\n'
    )
    program = Program(repo, tmp_path / "home", env={"SHELL": shell})
    program.rc = home / f".{request.param}rc"
    return program


def told(server: LoopbackModel) -> list[str]:
    return [result["text"] for result in told_results(server.bodies[-1])]


@pytest.mark.slow_after(1)
def test_a_headless_run_has_the_user_s_shell_and_rules_hold_for_aliases(user):
    (user.cwd / ".envrc").write_text("echo evil")
    user.settings(permissions={"allow": ["Bash"], "deny": ["Bash(git push:*)"]})
    replies = [bash('hi; echo "$PATH" >&2'), bash("gp"), bash("ls"), bash("greet you"), "Done."]
    with LoopbackModel.in_thread(replies) as server:
        user.url = server.url
        done = user.run("-p", "go")
        assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
        first, denied, listed, again = told(server)
    assert first.startswith("greetings hi\n") and f"{os.environ['HOME']}/tools" in first and again == "greetings you"
    assert "not allowed" in denied and "it runs git push" in denied
    assert "main.py" in listed and not (user.cwd / "pwned").exists(), "what is proven to read is not the user's ls"
    assert (Path(os.environ["HOME"]) / "count").read_text() == "once\n", "read once, and not in the repository"
    [snapshot] = (user.home / "shell-snapshots").iterdir()
    assert snapshot.stat().st_mode & 0o777 == 0o600
    assert not [line for line in done.stderr.splitlines() if "startup" in line]


@pytest.mark.slow_after(1)
def test_a_run_without_commands_reads_no_startup(user):
    with LoopbackModel.in_thread(["Hello."]) as server:
        user.url = server.url
        assert user.run("-p", "hi").stdout == "Hello.\n"
    assert not (Path(os.environ["HOME"]) / "count").exists() and not (user.home / "shell-snapshots").exists()


@pytest.mark.slow
def test_a_startup_that_hangs_costs_one_warning_and_the_run_goes_on(user):
    user.rc.write_text("sleep 600\n")
    user.settings(permissions={"allow": ["Bash"]}, bash={"startup_s": 1})
    with LoopbackModel.in_thread([bash("mkdir -p made; echo made"), bash("touch more; echo more"), "Done."]) as server:
        user.url = server.url
        done = user.run("-p", "go", "--output-format", "stream-json", "--verbose")
        assert done.returncode == 0 and told(server) == ["made", "more"]
    events = [json.loads(line) for line in done.stdout.splitlines()]
    notices = [e["event"]["text"] for e in events if e.get("event", {}).get("type") == "notice"]
    assert len([text for text in notices if "it took longer than 1 s" in text]) == 1, events


@pytest.mark.slow
def test_doctor_says_which_shell_it_is_and_why(user):
    def shell() -> dict:
        findings = json.loads(user.run("doctor", "--json").stdout)["findings"]
        return next(one for one in findings if one["label"] == "shell")

    assert shell()["value"].startswith(f"{user.env['SHELL']}: your $SHELL")
    user.settings(bash={"shell": "sh"})
    assert "the setting bash.shell; its startup files are not read" in shell()["value"]
    user.settings(bash={"startup": False})
    assert "bash.startup is off" in shell()["value"]
    user.settings(bash={"shell": "fish"})
    assert shell()["verdict"] == "problem" and "fish" in shell()["value"]
    done = user.run("-p", "hi")
    assert done.returncode == 3 and "bash.shell names a shell that cannot be used: 'fish'" in done.stderr


@pytest.mark.slow_after(1)
def test_a_repository_chooses_no_shell_and_no_startup(user):
    (user.cwd / ".teamwright").mkdir()
    (user.cwd / ".teamwright" / "settings.json").write_text(
        json.dumps({"bash": {"shell": "sh", "startup": False}, "env": {"BASH_ENV": "evil", "ZDOTDIR": "evil"}})
    )
    assert user.run("trust", "--yes").returncode == 0
    user.settings(permissions={"allow": ["Bash"]})
    with LoopbackModel.in_thread([bash("hi; echo $BASH_ENV$ZDOTDIR"), "Done."]) as server:
        user.url = server.url
        done = user.run("-p", "go")
        assert done.returncode == 0 and told(server) == ["greetings hi"], done.stderr
    assert "bash.shell is taken from your own settings only" in done.stderr
    assert "the variable ZDOTDIR is taken from your own settings only" in done.stderr
