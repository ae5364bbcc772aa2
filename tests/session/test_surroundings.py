"""The surroundings of a call are no way around its verdict: real calls, with programs that would leave a mark."""

import gzip
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.processes.program_environment import find_program, own_program_start, safe_path
from teamwright.sandbox.sandbox import find_implementation
from teamwright.session.spawn_file import member_environment, restore_variables
from teamwright.testing import Call, ScriptedModel
from tests.ui.conftest import GIT

USUAL = "/usr/local/bin:/usr/bin:/bin"
HELPERS = (
    "sh",
    "bash",
    "gzip",
    "xz",
    "bzip2",
    "zstd",
    "node",
    "pyenv",
    "less",
    "more",
    "ssh",
    "git-lfs",
    "diff-by-name",
)
READS = (
    "egrep x a.txt",
    "fgrep x a.txt",
    "zcat a.gz",
    "tar tzf a.tar.gz",
    "tar tf a.tar.xz",
    "npm --version",
    "python3 --version",
    "git diff",
    "git log -p",
    "git status",
    "head -1 a.txt | cat",
)
SANDBOXES = ["off", "auto"]


class Project:
    """A repository whose directories are on the PATH and in variables; everything in them leaves a mark."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.root, self.marks = directory, directory / "project", directory / "marks"
        self.home = directory / "home"
        for made in (self.binaries, self.root / "src", self.marks, self.home, directory / "shims"):
            made.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", "-b", "main", str(self.root)], check=True)
        (self.root / "a.txt").write_text("x\n")
        (self.root / "a.gz").write_bytes(gzip.compress(b"x\n"))
        for kind in ("gz", "xz"):
            with tarfile.open(self.root / f"a.tar.{kind}", f"w:{kind}") as archive:
                archive.add(self.root / "a.txt", "a.txt")
        subprocess.run([*GIT, "add", "a.txt"], cwd=self.root, check=True)
        subprocess.run([*GIT, "commit", "-q", "-m", "begin"], cwd=self.root, check=True)
        (self.root / "a.txt").write_text("x\ny\n")
        shim = directory / "shims" / "python3"
        shim.write_text("#!/bin/sh\npyenv 2>/dev/null\nexec /usr/bin/env -i python3 --version\n")
        shim.chmod(0o755)
        self.env = {"HOME": str(self.home), "PATH": f"{self.binaries}:{directory / 'shims'}:{USUAL}"}

    @property
    def binaries(self) -> Path:
        return self.root / ".venv" / "bin"

    def plant(self, *names: str) -> None:
        """Put programs that leave a mark into the directory of programs."""
        for name in names:
            self.program(self.binaries / name)

    def program(self, path: Path) -> None:
        path.write_text(f"#!/bin/sh\necho ran > {self.marks}/{path.name}\n")
        path.chmod(0o755)

    @property
    def found(self) -> list[str]:
        return sorted(os.listdir(self.marks))

    async def run(self, *calls: Call, **options) -> ScriptedModel:
        """Run a lead that makes these calls."""
        model = ScriptedModel([*calls, "Done."])
        given = {"cwd": self.root, "home": self.directory / "state", "env": self.env, "sandbox": "off"} | options
        async with Team("crew", model=model, **given) as team:
            await team.run("Go.")
        return model

    async def lines(self, *lines: str, **options) -> list[str]:
        """Run these lines, and return the texts of their results."""
        model = await self.run(*(Call("Bash", {"command": line}) for line in lines), **options)
        return [model.request_text(at + 1) for at in range(len(lines))]


@pytest.fixture
def project(tmp_path) -> Project:
    return Project(tmp_path)


@pytest.mark.finding("3P1")
@pytest.mark.parametrize("tool", ["TaskCreate", "TaskUpdate"])
async def test_a_check_of_a_task_is_judged_by_the_path_that_it_runs_with(project, tmp_path, tool):
    check = {"metadata": {"check": "ls"}}
    plain = {"subject": "s", "description": "d"}
    calls = {
        "TaskCreate": [Call("TaskCreate", {**plain, **check})],
        "TaskUpdate": [Call("TaskCreate", plain), Call("TaskUpdate", {"taskId": "1", **check})],
    }[tool]
    ran = await project.run(*calls)
    assert "was not allowed" not in ran.request_text(len(calls)), ran.request_text(len(calls))
    project.plant("ls")
    denied = await project.run(*calls, home=tmp_path / "state 2")
    assert "was not allowed" in denied.request_text(len(calls)), denied.request_text(len(calls))


@pytest.mark.finding("3P1")
@pytest.mark.parametrize("sandbox", SANDBOXES)
@pytest.mark.parametrize("mode", ["default", "plan"])
async def test_a_read_only_program_finds_no_helper_in_the_project(project, mode, sandbox):
    project.plant(*HELPERS, "grep")
    results = await project.lines(*READS, permission_mode=mode, sandbox=sandbox)
    assert project.found == []
    assert "a.txt" in results[3], "the archive is listed with the helper of the system"


@pytest.mark.finding("3P1")
async def test_the_everyday_lines_run_without_a_question_with_an_active_environment(project):
    (project.binaries / "python").symlink_to("/usr/bin/env")
    (project.binaries / "pytest").write_text("#!/bin/sh\n")
    (project.binaries / "pytest").chmod(0o755)
    results = await project.lines(
        "git status --short", "ls", "grep -c x a.txt", "which pytest", permission_mode="dontAsk"
    )
    assert "M a.txt" in results[0] and "a.gz" in results[1] and str(project.binaries / "pytest") in results[3]


@pytest.mark.finding("3P1")
async def test_a_line_that_a_person_allowed_finds_the_programs_of_the_project(project):
    project.plant("pytest", "grep")
    await project.lines("pytest", "grep x a.txt", "zcat a.gz", allowed_tools=["Bash(pytest)", "Bash(grep:*)"])
    assert project.found == ["grep", "pytest"]


@pytest.mark.finding("3P1")
async def test_a_rule_for_one_command_of_a_line_is_none_for_the_helpers_of_another_one(project):
    project.plant("pytest", "gzip")
    allowed = ["Bash(pytest)"]
    [denied] = await project.lines("zcat a.gz && pytest", allowed_tools=allowed, permission_mode="dontAsk")
    assert project.found == [] and "gzip, a program of the project" in denied
    await project.lines("cat a.txt && pytest", allowed_tools=allowed, permission_mode="dontAsk")
    assert project.found == ["pytest"]


@pytest.mark.finding("3P1")
async def test_git_beside_an_allowed_command_finds_no_program_of_its_configuration_in_the_project(project):
    project.plant("pytest", "shown")
    (project.home / ".gitconfig").write_text('[diff "x"]\n\ttextconv = shown\n')
    (project.home / "attributes").write_text("*.txt diff=x\n")
    with (project.home / ".gitconfig").open("a") as file:
        file.write(f"[core]\n\tattributesFile = {project.home}/attributes\n")
    allowed = ["Bash(pytest)"]
    await project.lines("git diff a.txt && pytest", "git diff a.txt; pytest", allowed_tools=allowed)
    await project.lines("timeout 5 git diff a.txt; pytest", allowed_tools=allowed, permission_mode="dontAsk")
    assert project.found == ["pytest"]
    await project.lines("git diff --textconv a.txt", allowed_tools=["Bash(git diff --textconv a.txt)"])
    assert project.found == ["pytest", "shown"]


VARIABLES = {
    "GIT_EXTERNAL_DIFF": "./mark",
    "BASH_ENV": "src/mark",
    "ENV": "src/mark",
    "GIT_PAGER": "./mark",
    "NODE_OPTIONS": "--require ./mark.js",
    "PERL5LIB": "src",
    "PERL5OPT": "-Mmark",
    "LESSOPEN": "|./mark %s",
    "TAR_OPTIONS": "--use-compress-program=./mark",
    "GZIP": "--version",
    "npm_config_node_options": "--require ./mark.js",
    "BASH_FUNC_cat%%": "() {  ./mark; }",
    "PYTHONPATH": "src",
}


@pytest.mark.finding("3P2")
@pytest.mark.parametrize("startup", [False, True])
async def test_no_variable_adds_code_of_the_project_to_a_line_that_only_reads(project, startup):
    project.program(project.root / "mark")
    project.program(project.root / "src" / "mark")
    text = f"open({str(project.marks / 'python')!r}, 'w').close()\n"
    (project.root / "src" / "sitecustomize.py").write_text(text)
    (project.root / "src" / "mark.pm").write_text(f"open(F, '>', '{project.marks}/perl'); 1;\n")
    (project.root / "mark.js").write_text(f"require('fs').writeFileSync('{project.marks}/node', '')\n")
    settings = project.directory / "settings.json"
    settings.write_text(json.dumps({"bash": {"startup": startup}}))
    project.env |= VARIABLES
    await project.lines(*READS, settings_file=settings)
    assert project.found == []


@pytest.mark.finding("3P2")
@pytest.mark.finding("3P4")
@pytest.mark.slow
@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_our_own_programs_are_not_those_of_the_project(project, sandbox, monkeypatch):
    """A command puts programs and modules there. Then Grep, a hook, and a member in a process start."""
    text = f"open({str(project.marks / 'python')!r}, 'w').close()\n"
    (project.root / "src" / "sitecustomize.py").write_text(text)
    project.plant("rg", "git", "bash", "sh", "python3", "tmux", "env")
    monkeypatch.chdir(project.root)
    monkeypatch.setenv("PATH", project.env["PATH"])
    monkeypatch.setenv("PYTHONPATH", "src")
    project.env |= {"PYTHONPATH": "src", "LD_LIBRARY_PATH": ":/usr/lib"}
    settings = project.directory / "settings.json"
    hooks = {"PostToolUse": [{"hooks": [{"type": "command", "command": "python3 -c 1; git --version"}]}]}
    settings.write_text(json.dumps({"hooks": hooks}))
    calls = [
        Call("Grep", {"pattern": "x"}),
        Call("Grep", {"pattern": "(?=x)"}),
        Call("Agent", {"name": "ada", "description": "w", "prompt": "hi", "isolation": "worktree"}),
    ]
    options = {"settings_file": settings, "permission_mode": "bypassPermissions", "sandbox": sandbox}
    await project.run(*calls, **options)
    assert project.found == []


def hooks(project: Project, line: str) -> Path:
    """Settings of the person with a hook after each call."""
    settings = project.directory / "settings.json"
    settings.write_text(json.dumps({"hooks": {"PostToolUse": [{"hooks": [{"type": "command", "command": line}]}]}}))
    return settings


@pytest.mark.finding("3P4")
@pytest.mark.parametrize("sandbox", SANDBOXES)
async def test_a_program_of_a_hook_that_only_the_project_has_runs_in_the_sandbox(project, sandbox):
    text = f"#!/bin/sh\necho ran > {project.marks}/formatter\necho ran > {project.root}/formatted\n"
    (project.binaries / "formatter").write_text(text)
    (project.binaries / "formatter").chmod(0o755)
    settings = hooks(project, "formatter a.txt")
    await project.run(Call("Read", {"file_path": str(project.root / "a.txt")}), settings_file=settings, sandbox=sandbox)
    confined = sandbox != "off" and find_implementation().name != "none"
    assert (project.root / "formatted").exists()
    assert project.found == ([] if confined else ["formatter"])


@pytest.mark.finding("3P4")
async def test_a_hook_finds_programs_outside_of_the_project_first(project):
    project.plant("sh", "bash", "git", "cat", "python3")
    settings = hooks(project, f"cat > {project.directory}/payload; git --version > {project.directory}/version")
    await project.run(Call("Read", {"file_path": str(project.root / "a.txt")}), settings_file=settings)
    assert project.found == [] and "git version" in (project.directory / "version").read_text()
    assert "Read" in (project.directory / "payload").read_text()


@pytest.mark.finding("3P4")
@pytest.mark.parametrize("entry", ["hook", "server"])
async def test_what_should_run_in_the_sandbox_finds_programs_outside_of_the_project_first_when_there_is_none(
    project, entry
):
    project.plant("sh", "bash", "git", "cat", "env")
    line = f"cd src; git --version > {project.directory}/version; cat"
    settings = hooks(project, line)
    values = json.loads(settings.read_text())
    if entry == "hook":
        values["hooks"]["PostToolUse"][0]["hooks"][0]["sandbox"] = True
    else:
        servers = {"x": {"command": "bash", "args": ["-c", line]}}
        (project.root / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
        values = {}
    settings.write_text(json.dumps(values))
    read = Call("Read", {"file_path": str(project.root / "a.txt")})
    await project.run(read, settings_file=settings, sandbox="off", trust=True)
    assert project.found == [] and "git version" in (project.directory / "version").read_text()


@pytest.mark.finding("3P2")
async def test_a_variable_of_the_settings_reaches_a_hook_as_it_is(project):
    settings = hooks(project, f"echo $PYTHONPATH:$NODE_PATH > {project.directory}/seen")
    settings.write_text(json.dumps(json.loads(settings.read_text()) | {"env": {"PYTHONPATH": "src"}}))
    project.env["NODE_PATH"] = str(project.root / "src")
    await project.run(Call("Read", {"file_path": str(project.root / "a.txt")}), settings_file=settings)
    assert (project.directory / "seen").read_text() == "src:\n"


async def test_a_variable_of_a_trusted_repository_leads_no_program_outside_the_sandbox_to_its_code(project):
    project.plant("cat", "server")
    line = f"echo $LD_LIBRARY_PATH:$NODE_OPTIONS:$MADE > {project.directory}/seen; cat"
    variables = {
        "PATH": f"./.venv/bin:{USUAL}",
        "LD_LIBRARY_PATH": "./src",
        "NODE_OPTIONS": "--require ./x.js",
        "MADE": "yes",
        "SERVER": str(project.binaries / "server"),
    }
    (project.root / ".claude").mkdir()
    shared = {"hooks": {"PostToolUse": [{"hooks": [{"type": "command", "command": line}]}]}, "env": variables}
    (project.root / ".claude" / "settings.json").write_text(json.dumps(shared))
    own = project.directory / "own.json"
    own.write_text(json.dumps({"mcpServers": {"own": {"command": "${SERVER:-cat}"}}}))
    read = Call("Read", {"file_path": str(project.root / "a.txt")})
    await project.run(read, settings_file=own, trust=True)
    assert (project.directory / "seen").read_text() == "::yes\n" and project.found == []


async def test_a_variable_of_a_trusted_repository_names_no_program_of_a_persons_own_agent_definition(project):
    project.plant("own", "theirs")
    settings = {"env": {"OWN": str(project.binaries / "own"), "THEIRS": str(project.binaries / "theirs")}}
    (project.root / ".claude" / "agents").mkdir(parents=True)
    (project.root / ".claude" / "settings.json").write_text(json.dumps(settings))
    servers = json.dumps({"theirs": {"command": "${THEIRS}"}})
    (project.root / ".claude" / "agents" / "theirs.md").write_text(
        f"---\nname: theirs\ndescription: x\nmcpServers: {servers}\n---\nWork.\n"
    )
    mine = {"description": "x", "prompt": "Work.", "mcpServers": {"own": {"command": "${OWN:-cat}"}}}
    calls = [Call("Agent", {"subagent_type": kind, "description": "w", "prompt": "hi"}) for kind in ("mine", "theirs")]
    script = [calls[0], "Done.", calls[1], "Done."]
    await project.run(*script, agents={"mine": mine}, trust=True, permission_mode="bypassPermissions")
    assert project.found == ["theirs"]


@pytest.mark.finding("3P4")
async def test_a_server_that_an_agent_definition_of_the_repository_brings_runs_in_the_sandbox(project):
    text = f"#!/bin/sh\necho ran > {project.root}/inside\necho ran > {project.marks}/outside\n"
    (project.binaries / "theirs").write_text(text)
    (project.binaries / "theirs").chmod(0o755)
    (project.root / ".claude" / "agents").mkdir(parents=True)
    servers = json.dumps({"theirs": {"command": str(project.binaries / "theirs")}})
    (project.root / ".claude" / "agents" / "theirs.md").write_text(
        f"---\nname: theirs\ndescription: x\nmcpServers: {servers}\n---\nWork.\n"
    )
    call = Call("Agent", {"subagent_type": "theirs", "description": "w", "prompt": "hi"})
    await project.run(call, "Done.", trust=True, permission_mode="bypassPermissions", sandbox="auto")
    assert (project.root / "inside").exists()
    assert project.found == ([] if find_implementation().name != "none" else ["outside"])


@pytest.mark.finding("3P2")
def test_a_member_process_starts_without_variables_that_add_code_and_gives_them_to_its_commands(project, monkeypatch):
    monkeypatch.chdir(project.root)
    env = {**project.env, "LD_LIBRARY_PATH": ":/usr/lib", "PYTHONPATH": "src", "KEY": "x"}
    started = member_environment(env, project.directory / "spawn.json")
    assert (started["LD_LIBRARY_PATH"], started["PATH"], started["KEY"]) == ("/usr/lib", env["PATH"], "x")
    assert "PYTHONPATH" not in started
    monkeypatch.setattr(os, "environ", started)
    restore_variables()
    assert {name: started[name] for name in env} == env


@pytest.mark.finding("3P4")
def test_the_start_of_a_person_s_program_depends_on_where_its_name_leads(project, monkeypatch):
    monkeypatch.chdir(project.root)
    project.plant("server", "git")
    env = {**project.env, "LD_LIBRARY_PATH": ":", "PYTHONPATH": str(project.root / "src")}
    known = own_program_start(["git"], env, {"A": "1"}, wants_sandbox=False)
    outside = known.environment(is_confined=False)
    assert (known.wants_sandbox, outside["A"]) == (False, "1")
    assert str(project.binaries) not in outside["PATH"] and "PYTHONPATH" not in outside
    of_project = own_program_start(["server"], env, {}, wants_sandbox=False)
    assert of_project.wants_sandbox and of_project.environment(is_confined=True) == env
    confined = own_program_start(["git"], env, {}, wants_sandbox=True)
    assert confined.environment(is_confined=True) == env
    assert confined.environment(is_confined=False)["PATH"].endswith(str(project.binaries))
    without_sandbox = of_project.environment(is_confined=False)
    assert without_sandbox["PATH"].endswith(str(project.binaries)) and "LD_LIBRARY_PATH" not in without_sandbox


@pytest.mark.finding("3P4")
def test_a_program_with_another_name_in_the_project_is_one_of_the_project(tmp_path):
    project, tools = tmp_path / "project", tmp_path / "tools"
    for place in (project / "build", tools):
        place.mkdir(parents=True)
    for name in ("cargo", "tool"):
        (tools / name).write_text("#!/bin/sh\n")
        (tools / name).chmod(0o755)
    (tools / "rustc").hardlink_to(tools / "cargo")  # several names in one directory are usual
    (project / "build" / "tool").write_text("#!/bin/sh\n")
    path, directories = f"{tools}:/usr/bin", (str(project),)
    assert safe_path(path, directories) == path
    assert find_program("tool", path, directories) == str(tools / "tool")
    (tools / "other").hardlink_to(project / "build" / "tool")
    (tools / "other").chmod(0o755)
    assert safe_path(path, directories) == "/usr/bin"
    assert find_program("other", path, directories) == ""
