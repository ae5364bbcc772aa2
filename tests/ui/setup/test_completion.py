"""Completion in real shells: commands, flags in both spellings, values, names on disk; never an error in the line."""

import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from teamwright.ui.cli.command_table import COMMANDS
from teamwright.ui.cli.completion.completer import SHAPE_FILE
from teamwright.ui.cli.flags import PERMISSION_MODES
from teamwright.ui.cli.generate_help_files import render_shapes as written_anew
from tests.support import preloaded
from tests.support.programs import needs
from tests.support.waits import WAIT_S
from tests.ui.setup.shells import at_terminal, bash_offers

pytestmark = pytest.mark.promise("K11")

bash = needs("bash")
SHELLS = [pytest.param(name, marks=needs(name)) for name in ("bash", "zsh")]
PROBE = """
import json, sys
from teamwright.ui.cli.main import main
code = main([])
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""


@pytest.fixture
def named(tmp_path: Path) -> Path:
    """A home with teams, a session, a task list and a request; and files that are none of it."""
    home = tmp_path / "state"
    for team, members in {"release": ["team-lead", "ada", "tess"], "Übung 1": ["team-lead", "bo"]}.items():
        place = home / "teams" / re.sub(r"\W", "-", team.lower())
        place.mkdir(parents=True)
        (place / "config.json").write_text(json.dumps({"name": team, "members": [{"name": one} for one in members]}))
    for odd, text in {"damaged": "{", "a-list": "[]", "strange": '{"name": "a\\u001b[31mb\\nc", "members": 7}'}.items():
        (home / "teams" / odd).mkdir()
        (home / "teams" / odd / "config.json").write_text(text)
    (home / "teams" / "piped").mkdir()
    os.mkfifo(home / "teams" / "piped" / "config.json")
    (home / "tasks" / "chores").mkdir(parents=True)
    box = home / "teams" / "release" / "requests"
    box.mkdir()
    for name in ("r-1.json", "r-2.json", "r-2.answer.json"):
        (box / name).write_text("{}")
    return home


def asked(line: str, cwd: Path, shell: str = "zsh", **env: str) -> list[list[str]]:
    """What the program answers to a shell: rows of kind, word and what is said of it."""
    done = preloaded.run(
        [sys.executable, "-m", "teamwright"],
        cwd=cwd,
        env=os.environ | {"_TEAMWRIGHT_COMPLETE": shell, "_TEAMWRIGHT_LINE": line} | env,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=WAIT_S,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [row.split("\t") for row in done.stdout.splitlines()]


def words(line: str, cwd: Path, **env: str) -> list[str]:
    return [row[1] for row in asked(line, cwd, **env)]


def test_the_shapes_of_the_commands_are_those_of_the_commands():
    assert SHAPE_FILE.read_text() == written_anew(), "run `make generated`"


@pytest.mark.slow
def test_the_first_word_is_a_command_and_each_has_its_line_of_help(tmp_path):
    rows = asked("teamwright ", tmp_path)
    assert [row[1] for row in rows] == list(COMMANDS)
    assert all(len(row) == 3 and row[2] for row in rows)


@pytest.mark.parametrize("line", ["teamwright -p ", "teamwright 'a prompt' d", "teamwright -p 'a prompt' d"])
@pytest.mark.slow_after(1)
def test_a_prompt_is_not_taken_for_a_command(tmp_path, line):
    assert asked(line, tmp_path) == []


@pytest.mark.slow
def test_flags_are_completed_in_the_spelling_that_was_begun_before_and_behind_a_prompt(tmp_path):
    assert words("teamwright --allowed-t", tmp_path) == ["--allowed-tools"]
    assert words("teamwright --allowedT", tmp_path) == ["--allowedTools"]
    assert words("teamwright 'a prompt' --maxBudget", tmp_path) == ["--maxBudgetUsd"]
    assert words("teamwright --model haiku log --fol", tmp_path) == ["--follow"]
    assert words("teamwright --trust --tru", tmp_path) == [], "it is there already"


@pytest.mark.parametrize("flag", ["--permission-mode ", "--permissionMode ", "--permission-mode=", "--permissionMode="])
@pytest.mark.slow_after(1)
def test_values_are_known_behind_either_spelling_with_and_without_an_equals_sign(tmp_path, flag):
    found = words(f"teamwright {flag}", tmp_path)
    assert found == [f"{flag}{mode}" if flag.endswith("=") else mode for mode in PERMISSION_MODES]


VALUES = {
    "--output-format ": {"text", "json", "stream-json"},
    "--effort ": {"low", "high", "max"},
    "--backend ": {"auto", "in-process", "tmux", "detached", "kitty"},
    "--plan-approval ": {"lead", "human", "auto"},
    "--model ": {"sonnet", "haiku", "opus", "ollama/", "openrouter/"},
    "demo --ask ": {"wait", "deny"},
    "demo --output-format ": {"text", "json"},
    "models ": {"anthropic", "ollama", "google"},
    "agents show ": {"general-purpose", "Explore", "Plan"},
    "requests allow --always ": {"session", "local", "project", "user"},
    "completion ": {"bash", "zsh", "fish"},
    "config get mod": {"model"},
    "config set plan_approval ": {"lead", "human", "auto"},
    "config set teams ": {"true", "false"},
    "config set effort ": {"low", "max"},
    "teams ": {"show", "rm", "adopt"},
}


@pytest.mark.parametrize("line", VALUES)
@pytest.mark.slow_after(1)
def test_values_come_from_the_tables_that_decide(tmp_path, line):
    assert set(words(f"teamwright {line}", tmp_path)) >= VALUES[line]


@pytest.mark.slow
def test_names_come_from_the_disk_and_odd_files_are_left_out(named, repo):
    def names(line: str) -> list[str]:
        return words(f"teamwright --home {named} {line}", repo)

    assert names("status ") == ["a-list", "damaged", "piped", "release", "Übung 1"]
    assert names("send ") == ["lead@release", "ada@release", "tess@release", "lead@Übung 1", "bo@Übung 1"]
    assert names("inbox ad") == ["ada@release"]
    assert names("stop rel") == ["release"]
    assert names("log release --member ") == ["lead", "ada", "tess"]
    assert names("tasks ch") == ["chores"]
    assert names("--task-list ") == ["chores"]
    assert names("requests deny ") == ["r-1"]
    assert words(f"teamwright status --home={named} rel", repo) == ["release"], "the place may stand behind it"


@pytest.mark.slow
def test_sessions_are_those_of_the_directory_that_the_line_names(tmp_path, own_home, repo):
    from teamwright.storage.paths import find_home

    id = str(uuid.uuid4())
    place = find_home(None).project(repo)
    place.mkdir(parents=True)
    (place / f"{id}.jsonl").write_text("")
    (tmp_path / "other").mkdir()
    assert words("teamwright resume ", repo) == [id[:8]]
    assert words("teamwright -r ", tmp_path / "other") == []
    assert words(f"teamwright -C {repo} -r ", tmp_path / "other") == [id[:8]]


@pytest.mark.slow
def test_kinds_and_services_of_the_user_s_own_are_known(repo, own_home):
    (repo / ".claude" / "agents").mkdir(parents=True)
    (repo / ".claude" / "agents" / "scribe.md").write_text("---\nname: scribe\n---\n")
    home = own_home / ".teamwright"
    home.mkdir()
    settings = {"providers": {"mine": {}}, "prices": {"mine/big": {}}, "members": {"adapters": {"foot": {}}}}
    (home / "settings.json").write_text(json.dumps(settings))
    (repo / "below").mkdir()
    assert "scribe" in words("teamwright agents show ", repo / "below")
    assert words("teamwright --model mi", repo) == ["mine/", "mine/big"]
    assert words("teamwright models mi", repo) == ["mine"]
    assert words("teamwright --backend fo", repo) == ["foot"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "teamwright",
        "teamwright 'unfinished ",
        "teamwright --nosuch x ",
        "teamwright nosuch ",
        "teamwright log a b c ",
        "teamwright --max-turns x ",
        "teamwright -C /nowhere/at/all sessions ",
        "teamwright \\",
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "nosuch"])
@pytest.mark.slow_after(2)
def test_a_line_that_nobody_understands_is_answered_without_a_word_on_stderr(tmp_path, line, shell):
    asked(line, tmp_path, shell)


def test_settings_and_homes_that_cannot_be_read_are_no_error(tmp_path, repo):
    home = tmp_path / "state"
    home.mkdir()
    (home / "settings.json").write_text("{")
    assert "sonnet" in words(f"teamwright --home {home} --model ", repo)
    assert words("teamwright --home /dev/null status ", repo) == []


@pytest.mark.parametrize("line", ["teamwright ", "teamwright doctor --", "teamwright cost "])
def test_a_tab_loads_no_command_and_nothing_that_could_ask_somebody(tmp_path, line):
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=tmp_path,
        env=os.environ | {"_TEAMWRIGHT_COMPLETE": "zsh", "_TEAMWRIGHT_LINE": line},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    code, modules = json.loads(done.stderr)
    assert code == 0
    heavy = "agent backends external mail member_process models permissions session subagents tasks teams tools"
    assert not {name.split(".")[1] for name in modules if name.startswith("teamwright.")} & set(heavy.split())
    assert {name for name in modules if name.startswith("teamwright.views")} <= {
        "teamwright.views",
        "teamwright.views.completion",
    }
    assert not set(modules) & {"socket", "asyncio", "pydantic", "httpx2", "subprocess"}


@bash
@pytest.mark.slow
def test_bash_gets_words_that_it_can_put_into_the_line(named, repo, tmp_path):
    assert bash_offers("teamwright doc", tmp_path, repo) == ["doctor"]
    assert bash_offers("teamwright --permissionMode=dont", tmp_path, repo) == ["dontAsk"]
    assert bash_offers("teamwright --model ollama", tmp_path, repo) == ["ollama/"]
    home = {"TEAMWRIGHT_HOME": str(named)}
    assert bash_offers("teamwright send ada@", tmp_path, repo, **home) == ["release"]
    assert bash_offers("teamwright send ad", tmp_path, repo, **home) == ["ada@release"]
    assert bash_offers("teamwright status Üb", tmp_path, repo, **home) == ["Übung\\ 1"]
    assert bash_offers("teamwright status 'Üb", tmp_path, repo, **home) == ["Übung 1"]
    assert bash_offers("teamwright nosuch x", tmp_path, repo) == []


@pytest.mark.slow
@pytest.mark.parametrize("shell", SHELLS)
def test_a_person_who_presses_tab_gets_the_line_on(shell, named, repo, tmp_path):
    (repo / "sub dir").mkdir()
    with at_terminal(shell, tmp_path, repo, TEAMWRIGHT_HOME=str(named)) as typed:
        for begun, whole in {
            "teamwright doct": "teamwright doctor ",
            "teamwright --allowedT": "teamwright --allowedTools ",
            "teamwright --permission-mode dont": "teamwright --permission-mode dontAsk ",
            "teamwright --permissionMode=dont": "teamwright --permissionMode=dontAsk ",
            "teamwright send ad": "teamwright send ada@release ",
            "teamwright send ada@re": "teamwright send ada@release ",
            "teamwright --model lmst": "teamwright --model lmstudio/",
            "teamwright status Üb": "teamwright status Übung\\ 1 ",
            "teamwright --add-dir su": "teamwright --add-dir sub\\ dir/",
            "teamwright --add-dir=su": "teamwright --add-dir=sub\\ dir/",
            "teamwright --settings READ": "teamwright --settings README.md ",
            "teamwright nosuch thing": "teamwright nosuch thing",
            "true; teamwright trus": "true; teamwright trust ",
        }.items():
            assert typed.completes(begun) == whole


@needs("fish")
def test_fish_offers_words_with_what_is_said_of_them(named, repo, tmp_path):
    from tests.ui.setup.shells import environment

    code = "teamwright completion fish | source; complete -C 'teamwright doc'; complete -C 'teamwright send ad'"
    env = environment(tmp_path) | {"TEAMWRIGHT_HOME": str(named)}
    options = {"capture_output": True, "text": True, "timeout": WAIT_S, "env": env, "cwd": repo}
    done = subprocess.run(["fish", "--no-config", "-c", code], **options)
    found = [row.split("\t")[0] for row in done.stdout.splitlines()]
    assert (found, done.stderr) == (["doctor", "ada@release"], "")


def test_a_shell_that_we_do_not_know_is_refused_with_those_that_we_do(tmp_path):
    done = preloaded.run([sys.executable, "-m", "teamwright", "completion", "tcsh"], text=True, timeout=WAIT_S)
    assert (done.returncode, done.stdout) == (2, "")
    assert all(shell in done.stderr for shell in ("bash", "zsh", "fish", "[usage]"))
