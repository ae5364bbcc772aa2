"""Files by which git, an editor, a shell, a package manager, a service or another agent runs something for a person.

One table: a change of such a file asks in every mode that accepts edits, and the sandbox protects those that run
outside of it without a command (`is_automatic`). Documented in docs/reference/guarded-files.md. Tables only.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache

from msgspec import Struct


class GuardedKind(Struct, frozen=True):
    """One kind of guarded files, in lower case.

    A name that ends in a slash is a directory with everything below it; a slash inside names a file or directory below
    another one; a star matches any characters of a file's name. `is_automatic`: programs outside of the sandbox use
    these files without a command of the person, so a confined command cannot change them.
    """

    title: str
    names: tuple[str, ...]
    sources: tuple[str, ...]
    is_automatic: bool = False


def _kind(title: str, names: str, sources: str, *, is_automatic: bool = False) -> GuardedKind:
    return GuardedKind(title, tuple(names.split()), tuple(sources.split()), is_automatic)


MISE_FILES = (
    *(".tool-versions", "mise.toml", ".mise.toml", "mise.*.toml", ".mise.*.toml", ".rtx.toml", ".rtx.*.toml"),
    *("mise/config.toml", "mise/config.*.toml", "mise/conf.d/", ".mise/", ".config/mise/"),
    *(".config/mise.toml", ".config/mise.*.toml"),
)
"""Files in which mise finds tools, variables and a PATH: "Configuration" and "Configuration Environments" of mise."""

GUARDED_KINDS = (
    _kind(
        "settings of Teamwright and Claude Code",
        ".teamwright/ .claude/ .mcp.json",
        "https://code.claude.com/docs/en/settings https://code.claude.com/docs/en/mcp",
        is_automatic=True,
    ),
    _kind(
        "settings of other agents: hooks, servers and rules",
        ".cursor/ .cursorrules .gemini/ .codex/ .opencode/ opencode.json opencode.jsonc .windsurf/ .windsurfrules"
        " .aider* .continue/ .continuerc.json .roo/ .roomodes .roorules .kilocode/ .kilocodemodes"
        " .kilo/ kilo.json kilo.jsonc .clinerules"
        " .clinerules/ .amp/ .qwen/ .junie/ .kiro/ .trae/ .augment/ .factory/ .crush/ crush.json .crush.json"
        " .goosehints .goose/ .agents/ .github/hooks/",
        "https://cursor.com/docs/mcp https://github.com/google-gemini/gemini-cli"
        " https://developers.openai.com/codex/config-basic https://opencode.ai/docs/config"
        " https://docs.windsurf.com/windsurf/cascade/hooks https://aider.chat/docs/config/aider_conf.html"
        " https://docs.continue.dev/reference https://docs.roocode.com"
        " https://kilo.ai/docs/automate/mcp/using-in-kilo-code https://docs.cline.bot"
        " https://ampcode.com/manual https://qwenlm.github.io/qwen-code-docs https://www.jetbrains.com/help/junie"
        " https://kiro.dev/docs/hooks https://docs.trae.ai https://docs.augmentcode.com https://docs.factory.ai"
        " https://github.com/charmbracelet/crush https://goose-docs.ai/docs/guides/context-engineering/using-goosehints"
        " https://docs.github.com/en/copilot/how-tos/use-copilot-agents/cloud-agent/use-hooks",
        is_automatic=True,
    ),
    _kind(
        "git: hooks, settings and attributes",
        ".git/ .gitmodules .gitattributes .gitconfig .lfsconfig",
        "https://git-scm.com/docs/git-config https://git-scm.com/docs/gitattributes https://git-scm.com/docs/githooks"
        " https://git-scm.com/docs/gitmodules https://github.com/git-lfs/git-lfs",
    ),
    _kind(
        "programs that install git hooks",
        ".husky/ .huskyrc* .githooks/ .git-hooks/ .lefthook/ .lefthook-local/ lefthook.yml lefthook.yaml"
        " lefthook.toml lefthook.json lefthook.jsonc .lefthook.* lefthook-local.* .lefthook-local.*"
        " .pre-commit-config.yaml .pre-commit-config.yml .overcommit.yml .git_hooks/ .lintstagedrc .lintstagedrc.*"
        " lint-staged.config.* .simple-git-hooks.*",
        "https://typicode.github.io/husky https://lefthook.dev/configuration https://pre-commit.com"
        " https://github.com/sds/overcommit https://github.com/lint-staged/lint-staged"
        " https://github.com/toplenboren/simple-git-hooks",
        is_automatic=True,
    ),
    _kind(
        "editors: tasks, settings and commands of a project",
        ".vscode/ *.code-workspace .idea/ .run/ .fleet/ .zed/ .vimrc .exrc .nvimrc .nvim.lua .lvimrc .dir-locals.el"
        " .dir-locals-2.el",
        "https://code.visualstudio.com/docs/editing/workspaces/workspaces https://code.visualstudio.com/docs/debugtest/tasks"
        " https://www.jetbrains.com/help/idea/run-debug-configuration.html https://zed.dev/docs/tasks"
        " https://neovim.io/doc/user/options.html"
        " https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html",
        is_automatic=True,
    ),
    _kind(
        "containers and machines for development",
        ".devcontainer/ .devcontainer.json .gitpod.yml .gitpod.dockerfile",
        "https://containers.dev/implementors/spec https://ona.com/docs/classic/user/references/gitpod-yml",
        is_automatic=True,
    ),
    _kind(
        "shells: start files and variables of a directory",
        ".envrc .envrc.* .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile"
        " .zlogin .zlogout .kshrc .cshrc .tcshrc .login .inputrc .ripgreprc",
        "https://direnv.net/man/direnv.1.html https://www.gnu.org/software/bash/manual/bash.html"
        " https://zsh.sourceforge.io/Doc/Release/Files.html https://github.com/BurntSushi/ripgrep",
        is_automatic=True,
    ),
    _kind(
        "version files: the program that a name starts",
        f"{' '.join(MISE_FILES)} .python-version .python-versions .pyenv-version .ruby-version .rbenv-version"
        " .node-version .nodenv-version .nvmrc .java-version .jenv-version .go-version .perl-version .php-version"
        " .lua-version .crystal-version .exenv-version .terraform-version .opentofu-version .terragrunt-version"
        " .terramate-version .atmos-version .packer-version .yvmrc .sdkmanrc rust-toolchain rust-toolchain.toml",
        "https://asdf-vm.com/manage/configuration.html https://mise.jdx.dev/configuration.html"
        " https://mise.jdx.dev/configuration/environments.html https://mise.jdx.dev/dev-tools/versions.html"
        " https://github.com/pyenv/pyenv https://github.com/rbenv/rbenv https://github.com/nodenv/nodenv"
        " https://www.jenv.be https://sdkman.io/usage https://rust-lang.github.io/rustup/overrides.html",
    ),
    _kind(
        "continuous integration",
        ".github/workflows/ .github/actions/ .gitea/workflows/ .forgejo/workflows/ .gitlab-ci.yml .circleci/"
        " .travis.yml azure-pipelines.yml bitbucket-pipelines.yml .drone.yml .woodpecker.yml .woodpecker.yaml"
        " .woodpecker/ .buildkite/ jenkinsfile appveyor.yml .appveyor.yml .cirrus.yml .semaphore/",
        "https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax"
        " https://docs.gitlab.com/ci/yaml https://circleci.com/docs/reference/configuration-reference"
        " https://docs.travis-ci.com https://learn.microsoft.com/azure/devops/pipelines/yaml-schema"
        " https://buildkite.com/docs/pipelines https://woodpecker-ci.org/docs/usage/workflow-syntax",
    ),
    _kind(
        "package managers and builders: settings that run programs or name registries",
        ".npmrc .yarnrc .yarnrc.yml .yarn/ .pnp.cjs .pnp.loader.mjs .pnpmfile.cjs .pnpmfile.mjs pnpmfile.cjs"
        " pnpmfile.mjs pnpmfile.js pnpm-workspace.yaml bunfig.toml"
        " .bundle/ .cargo/ .mvn/ gradle/wrapper/ .bazelrc .bazeliskrc node_modules/.bin/",
        "https://docs.npmjs.com/cli/configuring-npm/npmrc https://yarnpkg.com/configuration/yarnrc"
        " https://pnpm.io/pnpmfile https://pnpm.io/config-dependencies https://bun.com/docs/runtime/bunfig https://bundler.io/man/bundle-config.1.html"
        " https://doc.rust-lang.org/cargo/reference/config.html https://maven.apache.org/configure.html"
        " https://docs.gradle.org/current/userguide/gradle_wrapper.html https://bazel.build/run/bazelrc",
    ),
    _kind(
        "code that an interpreter or a debugger loads at its start",
        "sitecustomize.py usercustomize.py *.pth pyvenv.cfg .venv/ .ipython/ .pdbrc .gdbinit .lldbinit .irbrc .pryrc"
        " .rprofile",
        "https://docs.python.org/3/library/site.html https://docs.python.org/3/library/venv.html"
        " https://docs.python.org/3/library/pdb.html https://ipython.readthedocs.io/en/stable/config/intro.html"
        " https://sourceware.org/gdb/current/onlinedocs/gdb.html https://lldb.llvm.org/man/lldb.html"
        " https://ruby.github.io/irb"
        " https://stat.ethz.ch/R-manual/R-devel/library/base/html/Startup.html",
    ),
    _kind(
        "credentials and settings of the home directory",
        ".ssh/ .gnupg/ .config/ .pypirc .netrc .pgpass .pg_service.conf",
        "https://man.openbsd.org/ssh_config https://specifications.freedesktop.org/basedir-spec/latest"
        " https://packaging.python.org/en/latest/specifications/pypirc"
        " https://www.postgresql.org/docs/current/libpq-pgservice.html",
    ),
)

VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
"""The file in a virtual environment of Python, which may have any name."""

_NAMES = [name for kind in GUARDED_KINDS for name in kind.names]
_FILES = frozenset(name for name in _NAMES if not set(name) & set("/*"))
_PATTERNS = tuple(name for name in _NAMES if "*" in name and "/" not in name)
_PATTERNS_BELOW = tuple(name for name in _NAMES if "*" in name and "/" in name)
_DIRECTORIES = frozenset(name[:-1] for name in _NAMES if name.count("/") == 1 and name.endswith("/"))
_BELOW = frozenset(tuple(name.rstrip("/").split("/")) for name in _NAMES if "/" in name.rstrip("/") and "*" not in name)


@lru_cache(maxsize=1_024)
def guard_name(path: str) -> str:
    """Return the name that makes a file guarded (`.git`, `.envrc`), or an empty text. Case is ignored."""
    parts = path.lower().split("/")
    last = parts[-1]
    if last in _FILES or any(fnmatchcase(last, pattern) for pattern in _PATTERNS):
        return last
    below = "/".join(parts[-2:])
    if any(fnmatchcase(below, pattern) for pattern in _PATTERNS_BELOW):
        return last
    for at, part in enumerate(parts):
        if part in _DIRECTORIES or tuple(parts[at : at + 2]) in _BELOW:
            return part
    return ""


PROTECTED_NAMES = tuple(
    name.rstrip("/") for kind in GUARDED_KINDS if kind.is_automatic for name in kind.names if "*" not in name
)
"""Guarded files and directories at the top of a project that a confined command cannot change."""

PROTECTED_PATTERNS = tuple(name for kind in GUARDED_KINDS if kind.is_automatic for name in kind.names if "*" in name)
"""Patterns of such files' names, for files that exist."""


_PROTECTED = frozenset(tuple(name.split("/")) for name in (".git", *PROTECTED_NAMES))


def is_protected(path: str) -> bool:
    """Return True when a part of the path has the name of a protected file. Case is ignored."""
    parts = path.lower().split("/")
    if any(fnmatchcase(parts[-1], pattern) for pattern in PROTECTED_PATTERNS):
        return True
    return any((part,) in _PROTECTED or tuple(parts[at : at + 2]) in _PROTECTED for at, part in enumerate(parts))
