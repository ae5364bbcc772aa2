"""What a start loads, asked of real processes: help its text alone, a run only what it uses, a library nothing."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import teamwright
from teamwright import tools
from teamwright.testing.model_server import LoopbackModel
from tests.support.waits import WAIT_S

ROOT = Path(__file__).parent.parent
SCRIPT = """
[[agent.lead.turn]]
say = "Let me look."
[[agent.lead.turn.call]]
tool = "{tool}"
input = {input}

[[agent.lead.turn]]
say = "Done."
"""
TEAM_SCRIPT = """
[[agent.lead.turn]]
say = "First a team."
[[agent.lead.turn.call]]
tool = "TeamCreate"
input = { team_name = "crew", description = "looks" }

[[agent.lead.turn]]
say = "Then a task."
[[agent.lead.turn.call]]
tool = "TaskCreate"
input = { subject = "Look", description = "Look." }

[[agent.lead.turn]]
say = "Done."
"""
VALIDATION = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
HTTP = {"httpx2", "httpcore2", "h11", "h2", "hpack", "hyperframe", "anyio", "sniffio", "idna", "truststore"}
VALUES = {"msgspec", "typing_extensions"}
PROBE = """
import json, sys
sys.argv = ["teamwright", *json.loads(sys.argv[1])]
from teamwright.__main__ import main
code = 1
try:
    main()
except SystemExit as ending:
    code = ending.code
sys.stderr.write(json.dumps([code, sorted(sys.modules)]))
"""


def python(code: str, *args: str, cwd: Path, home: Path, **more: str) -> subprocess.CompletedProcess:
    env = os.environ | {"HOME": str(home), "TEAMWRIGHT_HOME": str(home / "state")} | more
    command = [sys.executable, "-c", code, *args]
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": WAIT_S}
    return subprocess.run(command, cwd=cwd, env=env, **options)


def loaded_by(tmp_path: Path, *args: str, **env: str) -> set[str]:
    """The modules that are there when `teamwright ARGS` has ended well."""
    done = python(PROBE, json.dumps(args), cwd=tmp_path, home=tmp_path / "home", **env)
    code, modules = json.loads(done.stderr[done.stderr.rindex("[0,") :])
    assert code == 0
    return set(modules)


def strangers(modules: set[str]) -> set[str]:
    """The top names of what is neither ours nor Python's."""
    ours = {"teamwright", "__main__", "__mp_main__", "_distutils_hack", "sitecustomize", "usercustomize"}
    tops = {name.partition(".")[0] for name in modules}
    found = {
        name
        for name in tops - ours - sys.stdlib_module_names
        if not name.startswith(("_sysconfigdata", "__editable__"))
    }
    return found - {name for name in found if name.endswith("_virtualenv")}


def of_packages(modules: set[str], *names: str) -> set[str]:
    """The modules of these packages; each name is one of ours that exists."""
    source = Path(teamwright.__file__).parent.parent
    paths = [source / name.replace(".", "/") for name in names]
    assert all(path.is_dir() or path.with_suffix(".py").is_file() for path in paths), names
    return {module for module in modules for name in names if f"{module}.".startswith(f"{name}.")}


def scripted(tmp_path: Path, tool: str, given: str) -> str:
    path = tmp_path / "script.toml"
    path.write_text(SCRIPT.format(tool=tool, input=given))
    return f"scripted:{path}"


@pytest.mark.finding("B3")
@pytest.mark.parametrize("flag", ["--help", "-h", "--version", "-V"])
def test_help_loads_nothing_but_its_text(tmp_path, flag):
    modules = loaded_by(tmp_path, flag)
    assert not strangers(modules)
    assert not {"typing", "dataclasses", "asyncio", "signal"} & modules
    ours = {name for name in modules if name.startswith("teamwright.")}
    assert ours == {"teamwright.__main__", "teamwright.ui", "teamwright.ui.prepared_help"}


@pytest.mark.parametrize(
    "command", ["sessions", "teams", "tasks", "log", "trust", "models", "doctor", "resume", "demo"]
)
@pytest.mark.slow_after(1)
def test_the_help_of_a_command_loads_nothing_that_runs(tmp_path, command):
    modules = loaded_by(tmp_path, command, "--help")
    assert strangers(modules) <= {"click"} | VALUES | VALIDATION


FILES_ONLY = {
    "version": 22,
    "log": 110,
    "status": 115,
    "requests": 87,
    "tasks": 116,
    "cost": 110,
    "teams": 116,
    "inbox": 116,
    "worktrees": 120,
    "stop": 138,
    "sessions": 178,
    "projects": 177,
}
"""The most modules of ours that a command on files may load. Each figure is a few above what it loads.

A command that goes over its figure loads something on which its answer does not depend. Import that inside the function
that needs it, or for types alone, or move the name that was wanted to a module that loads less. `python -X importtime
-m teamwright COMMAND` shows who loads what. Raise a figure only when the command itself has come to need more.
"""

READS_SETTINGS = {
    "plugin": 168,
    "config": 188,
    "check": 188,
    "agents": 188,
    "mcp": 191,
    "trust": 215,
    "permissions": 215,
    "audit": 170,
    "diff": 240,
    "models": 238,
}
"""As FILES_ONLY, for commands that read settings, definitions or what members did."""

HEADLESS_TURN = 300
"""As FILES_ONLY, for a headless turn of text with a script."""

LIVE = (
    *("teamwright.session.session", "teamwright.session.open_session", "teamwright.session.agents"),
    *("teamwright.session.wiring", "teamwright.agent.agent", "teamwright.agent.turn_loop"),
    *("teamwright.models.names", "teamwright.models.service_model", "teamwright.models.providers"),
    *("teamwright.mcp.server", "teamwright.tools.files"),
)
"""What a running session consists of: modules and packages."""

ARGUMENTS = {"inbox": ("lead@crew",), "stop": ("crew",), "log": ("crew",), "cost": ("crew",), "tasks": ("crew",)}


@pytest.fixture(scope="module")
def place_with_a_team(tmp_path_factory) -> Path:
    """A directory whose home, as `loaded_by` names it, has a team with an open task; no process runs the team."""
    place = tmp_path_factory.mktemp("crew")
    script = place / "team.toml"
    script.write_text(TEAM_SCRIPT)
    loaded_by(place, "-p", "Look.", "--model", f"scripted:{script}")
    return place


def ours(modules: set[str]) -> set[str]:
    return {name for name in modules if name.partition(".")[0] == "teamwright"}


@pytest.mark.parametrize("command", FILES_ONLY)
@pytest.mark.slow_after(4)
def test_a_command_on_files_loads_no_session_and_no_more_modules_than_its_figure(place_with_a_team, command):
    modules = loaded_by(place_with_a_team, command, *ARGUMENTS.get(command, ()))
    assert strangers(modules) <= {"click"} | VALUES
    assert not of_packages(modules, *LIVE)
    assert len(ours(modules)) <= FILES_ONLY[command]


@pytest.mark.parametrize("command", READS_SETTINGS)
@pytest.mark.slow
def test_a_command_that_reads_settings_loads_no_http_and_no_more_modules_than_its_figure(place_with_a_team, command):
    modules = loaded_by(place_with_a_team, command)
    assert strangers(modules) <= {"click"} | VALUES
    assert len(ours(modules)) <= READS_SETTINGS[command]


@pytest.mark.slow
def test_a_headless_run_with_a_script_loads_only_what_it_uses(tmp_path):
    model = scripted(tmp_path, "TaskList", "{}")
    modules = loaded_by(tmp_path, "-p", "Look.", "--model", model)
    assert strangers(modules) <= {"click"} | VALUES | VALIDATION
    assert "teamwright.shell_lines.parse" not in modules
    assert not of_packages(modules, "teamwright.ui.terminal", "teamwright.ui.demo")
    assert "teamwright.tools.tasks.task_list" in modules
    assert not {"teamwright.tools.files.grep", "teamwright.tools.shell.bash"} & modules


@pytest.mark.finding("B3")
def test_a_text_only_turn_loads_no_tool_and_no_validation(tmp_path):
    script = tmp_path / "script.toml"
    script.write_text('[[agent.lead.turn]]\nsay = "Done."\n')
    modules = loaded_by(tmp_path, "-p", "Say it.", "--model", f"scripted:{script}")
    assert strangers(modules) == {"click"} | VALUES
    assert "dataclasses" not in modules
    assert not {f"teamwright.tools.{module}" for module in tools.MODULES.values()} & modules
    assert len(ours(modules)) <= HEADLESS_TURN


@pytest.mark.slow
async def test_a_headless_turn_over_http_loads_no_surface_and_no_kit_of_a_vendor(tmp_path):
    async with LoopbackModel(["Done."]) as server:
        env = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-test-not-a-key"}
        args = ("-p", "Look.", "--model", "claude-haiku-4-5")
        modules = await asyncio.to_thread(loaded_by, tmp_path, *args, **env)
    assert "httpx2" in modules
    assert strangers(modules) <= {"click"} | VALUES | VALIDATION | HTTP
    assert "teamwright.shell_lines.parse" not in modules
    screens = ("teamwright.ui.terminal", "teamwright.ui.demo", "teamwright.ui.member_process")
    assert not of_packages(modules, *screens, "teamwright.member_process")
    assert of_packages(modules, "teamwright.external") <= {"teamwright.external", "teamwright.external.file_changes"}


@pytest.mark.slow
def test_a_member_s_process_loads_only_what_its_first_turn_uses(tmp_path):
    code = (
        "import asyncio, sys; from pathlib import Path\n"
        "from bench.fresh import clean_env; from bench.member_process import measure\n"
        "from teamwright.processes.own_python import own_python_argv\n"
        "from teamwright.session.wiring import member_launcher\n"
        "member_launcher.PROGRAM = own_python_argv('teamwright', '-X', 'importtime')\n"
        "asyncio.run(measure({'kind': 'member', 'backend': 'detached'}, Path(sys.argv[1]), clean_env()))"
    )
    done = python(code, str(tmp_path), cwd=ROOT, home=tmp_path / "home")
    assert done.returncode == 0, done.stderr
    [said] = tmp_path.glob("state/projects/*/*/members/*.log")
    lines = [line for line in said.read_text().splitlines() if line.startswith("import time:")]
    modules = {line.rpartition("|")[2].strip() for line in lines}
    assert "teamwright.ui.member_process" in modules and "httpx2" in modules
    tops = {name.partition(".")[0] for name in modules}
    assert not tops & {"click", "prompt_toolkit", "rich", "tree_sitter", "markdownify", "anthropic", "mcp"}
    screens = ("teamwright.ui.terminal", "teamwright.ui.demo", "teamwright.ui.cli.root")
    assert not of_packages(modules, *screens, "teamwright.external")


@pytest.mark.slow
def test_the_grammar_of_the_shell_loads_with_the_first_command(tmp_path):
    model = scripted(tmp_path, "Bash", '{ command = "true", description = "nothing" }')
    modules = loaded_by(tmp_path, "-p", "Look.", "--model", model)
    assert {"tree_sitter", "teamwright.shell_lines.parse"} <= modules
    assert not strangers(modules) & {
        "mcp",
        "prompt_toolkit",
        "rich",
        "markdownify",
        "anthropic",
        "httpx2",
        "watchfiles",
    }


def test_a_session_with_mcp_servers_loads_the_official_package_and_http_only_when_a_server_needs_them(tmp_path):
    code = "import sys, teamwright.session.wiring.mcp_pool, teamwright.mcp.server; print(*sorted(sys.modules))"
    done = python(code, cwd=tmp_path, home=tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert not set(done.stdout.split()) & ({"mcp"} | VALIDATION - VALUES | HTTP)


def test_importing_the_library_touches_no_home_starts_no_thread_and_loads_no_loop(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    code = (
        "import sys, teamwright\n"
        "started = sys.modules.get('threading')\n"
        "assert started is None or started.active_count() == 1\n"
        "import signal\n"
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
        "print(*sorted(sys.modules))"
    )
    done = python(code, cwd=tmp_path, home=home)
    assert done.returncode == 0, done.stderr
    modules = set(done.stdout.split())
    assert not strangers(modules)
    assert not modules & {"asyncio", "threading", "dataclasses"}
    assert not list(home.iterdir())
