"""The table of guarded files: verdicts, the sandbox and the documentation use the same one."""

import os
from pathlib import Path

import pytest

from teamwright.permissions.verdict import Mode, Verdict
from teamwright.sandbox.command_needs import NO_NEEDS
from teamwright.sandbox.command_policy import SandboxPaths, protected_paths
from teamwright.sandbox.guarded_files import GUARDED_KINDS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "guarded-files.md"
SIBLINGS_TEXT = """
lefthook.toml lefthook.yml .lefthook.json lefthook-local.yaml .lefthook-local.toml .lintstagedrc.json
.devcontainer.json .devcontainer/Dockerfile .gitpod.yml .gitpod.Dockerfile .github/actions/setup/action.yml
.github/workflows/ci.yml .forgejo/workflows/ci.yml shop.code-workspace .run/Test.run.xml .dir-locals.el .exrc
.nvim.lua .cursorrules .cursor/mcp.json .gemini/settings.json .codex/config.toml .aider.conf.yml
.continue/config.yaml .roo/mcp.json .kilocode/mcp.json .kilo/kilo.jsonc kilo.json
.windsurf/hooks.json .amp/settings.json .opencode/plugin/x.ts
opencode.jsonc .qwen/settings.json .junie/mcp/mcp.json .kiro/hooks/x.hook .zed/tasks.json .goosehints .clinerules
.bundle/config .pnpmfile.cjs pnpmfile.cjs .yarnrc.yml .yarn/releases/yarn.cjs .npmrc .cargo/config.toml
.mvn/jvm.config .mvn/extensions.xml gradle/wrapper/gradle-wrapper.properties .bazelrc node_modules/.bin/tsc .envrc
.tool-versions mise.toml .mise.local.toml mise.local.toml mise.ci.toml mise/config.toml mise/config.local.toml
mise/config.ci.toml mise/conf.d/a.toml .mise/config.toml .mise/conf.d/a.toml .config/mise.toml .config/mise/config.toml
.config/mise.ci.local.toml .rtx.toml .rtx.local.toml .exenv-version .yvmrc
.python-versions .python-version .java-version .ruby-version .node-version
.pre-commit-config.yaml .husky/pre-commit .gitmodules .gitattributes .lfsconfig .venv/bin/python
.venv/lib/python3.11/site-packages/x.pth env/pyvenv.cfg sitecustomize.py src/usercustomize.py lib/x.pth .gdbinit
.lldbinit .pdbrc .ipython/profile_default/startup/x.py
"""
SIBLINGS = SIBLINGS_TEXT.split()
ORDINARY_TEXT = """
README.md src/main.py package.json Makefile pyproject.toml build.rs tests/conftest.py .gitignore .editorconfig
.github/CODEOWNERS .github/dependabot.yml .eslintrc.json tsconfig.json docs/venv.md src/lefthook.go mise/main.rs
setup.py .env.example gradle/libs.versions.toml node_modules.md src/site.py
"""
ORDINARY = ORDINARY_TEXT.split()


@pytest.mark.finding("3P10")
@pytest.mark.parametrize("path", SIBLINGS)
def test_a_sibling_of_a_guarded_file_asks_although_edits_are_accepted(scratch, path):
    for place in (path, f"sub/{path}"):
        decision = scratch.write(place, mode=Mode.ACCEPT_EDITS)
        assert (decision.verdict, decision.rule) == (Verdict.ASK, "guarded files")
    assert scratch.run(f"touch {path}", Mode.ACCEPT_EDITS).verdict is Verdict.ASK


@pytest.mark.finding("3P10")
def test_ordinary_sources_need_no_answer(scratch):
    found = {path: scratch.write(path, mode=Mode.ACCEPT_EDITS).verdict for path in ORDINARY}
    assert found == dict.fromkeys(ORDINARY, Verdict.ALLOW)


@pytest.mark.finding("3P10")
def test_a_virtual_environment_of_any_name_is_guarded(own_scratch):
    (own_scratch.project / "py311" / "lib").mkdir(parents=True)
    assert own_scratch.write("py311/lib/x.py", mode=Mode.ACCEPT_EDITS).verdict is Verdict.ALLOW
    (own_scratch.project / "py311" / "pyvenv.cfg").write_text("home = /usr/bin\n")
    assert own_scratch.write("py311/lib/x.py", mode=Mode.ACCEPT_EDITS).verdict is Verdict.ASK
    assert (
        own_scratch.write("py311/lib/x.py", mode=Mode.ACCEPT_EDITS, allow=["Edit(/py311/**)"]).verdict is Verdict.ALLOW
    )


@pytest.mark.finding("3P10")
def test_the_sandbox_protects_the_files_of_the_same_table(tmp_path):
    names = ("lefthook.toml", ".devcontainer.json", "shop.code-workspace", ".windsurf", ".envrc", ".dir-locals.el")
    project = Path(os.path.realpath(tmp_path)) / "project"
    project.mkdir()
    for name in names:
        (project / name).write_text("")
    place = SandboxPaths(str(tmp_path / "home"), (), (), "", {})
    found = {os.path.relpath(path, project) for path in protected_paths([str(project)], (), place, NO_NEEDS)}
    assert found >= {*names, ".claude", ".mcp.json", ".cursor", ".vscode", ".husky"}
    assert not found & {"package.json", ".npmrc", ".github"}


@pytest.mark.finding("3P10")
def test_the_page_has_every_name_with_its_source():
    text = PAGE.read_text(encoding="utf-8")
    for kind in GUARDED_KINDS:
        assert kind.title in text
        assert not [name for name in kind.names if f"`{name}`" not in text]
        assert kind.sources
        assert not [source for source in kind.sources if source not in text]
