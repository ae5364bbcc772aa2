"""Surroundings of a call: what the person, the machine and the repository may have set when a line runs.

A surrounding is a text, `KIND VALUE`, so that a finding can be written down and played again. `{project}` and `{home}`
in it are the directories of the world, `*` in a PATH the entries that were there before; behind the PATH are the names
of the programs in its directories.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from teamwright.shell_lines.command_words import word_set

PROGRAM_PLACES = (".venv/bin", "node_modules/.bin", "bin", "tools", ".")
"""Directories of the project that may be on the PATH."""

SHIMS = {
    ".pyenv/shims": (".python-version", ("python", "python3", "pip")),
    ".rbenv/shims": (".ruby-version", ("ruby", "gem")),
    ".nodenv/shims": (".node-version", ("node", "npm", "npx")),
    ".jenv/shims": (".java-version", ("java", "javac")),
    ".goenv/shims": (".go-version", ("go", "gofmt")),
    ".asdf/shims": (".tool-versions", ("python3", "node", "npm", "ruby", "java", "go", "cargo", "rustc")),
}
"""Imitations of version managers: the directory of the shims, the file that names a version, and the programs."""

PROGRAM_NAMES = tuple(
    sorted(
        word_set("""
    gzip gunzip xz bzip2 zstd compress uncompress lz4 sh bash dash zsh grep egrep fgrep rg ag git git-lfs git-foo
    git-diff less lesspipe more most pager man groff nroff troff tbl preconv col python python3 node npm npx ruby
    gem java javac go gofmt cargo rustc ssh gpg gpg2 awk gawk mawk sed sort env cat head tail wc tput locale
    locale-gen perl file which ls find xargs stat date uname id hostname tar zcat zgrep xzcat bzcat diff cmp cut
    tr uniq tee expr basename dirname readlink realpath mktemp rm cp mv ln mkdir touch chmod sleep true false
    test printf echo tty stty ps nproc lscpu lsb_release apt-config dpkg make cc gcc ld as jq curl wget tmux
    mk_filter mk_textconv mk_diff mk_monitor mk_pager mk_helper setsid nohup nice timeout stdbuf time setpriv
    unshare bwrap prlimit cygpath cpp manpath iconv lessecho lesskey unzip zipinfo zip sha256sum md5sum du df
""")
    )
)

_HELPERS = (
    *("grep", "gzip", "xz", "bzip2", "sh", "bash", "node", "git", "less", "sed", "rg", "python3", "cat", "env", "expr"),
    *("mk_filter", "mk_textconv", "mk_diff", "mk_monitor", "mk_pager", "mk_helper", "ssh", "gpg", "groff", "dircolors"),
)
"""Programs that others start."""

_PATHS = (
    *("{project}/.venv/bin:*", "{project}/node_modules/.bin:*", "{project}/bin:*", "*:{project}/.venv/bin"),
    *(".venv/bin:*", "node_modules/.bin:*", "bin:*", "./bin:*", ":*", "*:", ".:*", "*::/usr/games", "tools:*"),
    *(
        "{home}/.pyenv/shims:*",
        "{home}/.rbenv/shims:*",
        "{home}/linked-bin:*",
        "{project}/sub/../bin:*",
        "{home}/../project/bin:*",
        "{project}/node_modules/.bin/:*",
    ),
)
_VARIABLES = (
    *("PYTHONPATH={project}/src", "PYTHONPATH=src", "PYTHONPATH=", "PYTHONPATH=:/nowhere", "PYTHONPATH=.:"),
    *("PYTHONSTARTUP={project}/sitecustomize.py", "PYTHONUSERBASE={project}/userbase", "PYTHONUSERBASE=userbase"),
    *("PERL5LIB={project}/perl", "PERL5LIB=perl PERL5OPT=-Mstrict", "PERL5OPT=-Mmark_module PERL5LIB={project}/perl"),
    *("NODE_OPTIONS=--require={project}/mark.js", "NODE_OPTIONS=-r=./mark.js", "NODE_PATH={project}/node_modules"),
    *("NODE_OPTIONS=--import={project}/mark.mjs", "RUBYOPT=-r./mark.rb", "RUBYLIB={project}/ruby", "GIT_TRACE=log"),
    *("LD_LIBRARY_PATH={project}/lib", "LD_LIBRARY_PATH=/usr/lib:", "LD_LIBRARY_PATH=:/opt/lib", "LD_LIBRARY_PATH=lib"),
    *("LD_PRELOAD={project}/lib/libmark.so", "LD_PRELOAD=./lib/libmark.so", "LD_AUDIT={project}/lib/libmark.so"),
    *("BASH_ENV={project}/mark.sh", "BASH_ENV=./mark.sh", "ENV={project}/mark.sh", "ENV=./mark.sh", "SHELLOPTS=xtrace"),
    *("PS4=$(./mark.sh) SHELLOPTS=xtrace", "PROMPT_COMMAND=./mark.sh", "CDPATH=..:.", "ZDOTDIR={project}", "IFS=a"),
    *("GIT_EXTERNAL_DIFF=./mark.sh", "GIT_EXTERNAL_DIFF={project}/mark.sh", "GIT_PAGER=./mark.sh", "PAGER=./mark.sh"),
    *("GIT_SSH_COMMAND=./mark.sh", "GIT_ASKPASS=./mark.sh", "GIT_EDITOR=./mark.sh", "GIT_EXEC_PATH={project}/evil/bin"),
    *("GIT_CONFIG_GLOBAL={project}/hostile.gitconfig", "GIT_CONFIG_SYSTEM=hostile.gitconfig", "GIT_DIR=sub/other"),
    *("XDG_CONFIG_HOME={project}/xdg", "XDG_CONFIG_HOME=xdg", "GIT_TEMPLATE_DIR=./tools", "GIT_INDEX_FILE=../index"),
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.fsmonitor GIT_CONFIG_VALUE_0=./mark.sh",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=.githooks",
    "GIT_CONFIG_PARAMETERS='core.fsmonitor=./mark.sh'",
    *("LESSOPEN=|./mark.sh", "LESSOPEN=|{project}/mark.sh %s", "LESSCLOSE=./mark.sh", "LESSKEYIN={project}/lesskey"),
    *("MANPAGER=./mark.sh", "MANPATH={project}/man", "MANROFFOPT=-U", "EDITOR=./mark.sh", "BROWSER=./mark.sh"),
    *("TAR_OPTIONS=--to-command=./mark.sh", "TAR_OPTIONS=--checkpoint=1 --checkpoint-action=exec=./mark.sh"),
    *("TAR_OPTIONS=--use-compress-program=./mark.sh", "GZIP=-v", "XZ_OPT=-v", "GREP_OPTIONS=-R", "GREP_COLORS=mt=1"),
    *("RIPGREP_CONFIG_PATH={project}/ripgreprc", "RIPGREP_CONFIG_PATH=ripgreprc", "AWKPATH=.", "MAGIC={project}/magic"),
    *("TZ=:{project}/numbers", "LOCPATH={project}/locales LANG=xx_XX", "GCONV_PATH={project}/gconv LANG=xx.MARK"),
    *(
        "TERMINFO={project}/terminfo",
        "npm_config_node_options=--require=./mark.js",
        "npm_config_script_shell=./mark.sh",
    ),
    *(
        "npm_config_prefix={project}/evil",
        "NPM_CONFIG_USERCONFIG={project}/.npmrc",
        "SHELL={project}/evil/bin/bash",
        "SHELL=evil/bin/sh",
    ),
    *("PYENV_VERSION=../../../project/evil", "RBENV_VERSION=../../../project/evil", "JAVA_HOME={project}/evil"),
    *(
        "JAVA_TOOL_OPTIONS=-javaagent:./mark.jar",
        "GOFLAGS=-toolexec=./mark.sh",
        "CARGO_HOME={project}/evil",
        "MAKEFLAGS=-f",
    ),
    *("EDITOR=mk_helper", "GIT_PAGER=mk_pager", "LESSOPEN=|mk_helper %s", "GIT_EXTERNAL_DIFF=mk_diff"),
)
_GIT = (
    *("core.hooksPath=.githooks", "core.hooksPath=./.githooks", "core.fsmonitor=scripts/fsmonitor"),
    *(
        "core.fsmonitor=./mark.sh",
        "filter.y.clean=./mark.sh",
        "filter.y.smudge=./mark.sh",
        "filter.y.process=./mark.sh",
    ),
    *("filter.y.clean=sh mark.sh", "diff.y.textconv=./mark.sh", "diff.y.command=./mark.sh", "diff.external=./mark.sh"),
    *("diff.y.textconv=sh mark.sh", "core.pager=./mark.sh", "pager.log=./mark.sh", "pager.diff=./mark.sh"),
    *(
        "core.sshCommand=./mark.sh",
        "credential.helper=./mark.sh",
        "credential.helper=!./mark.sh",
        "alias.st=!./mark.sh",
    ),
    *(
        "gpg.program=./mark.sh",
        "core.editor=./mark.sh",
        "core.attributesFile={project}/attributes",
        "alias.lg=!sh mark.sh",
    ),
    *(
        "include.path={project}/hostile.gitconfig",
        "include.path=../project/hostile.gitconfig",
        "core.askPass=./mark.sh",
    ),
    *("interactive.diffFilter=./mark.sh", "merge.y.driver=./mark.sh", "uploadpack.packObjectsHook=./mark.sh"),
    *("log.showSignature=true", "core.gitProxy=./mark.sh", "core.alternateRefsCommand=./mark.sh", "help.autocorrect=1"),
)
_BY_NAME = (
    *(
        "filter.y.clean=mk_filter",
        "filter.y.process=mk_filter",
        "diff.y.textconv=mk_textconv",
        "diff.y.command=mk_diff",
    ),
    *("diff.external=mk_diff", "core.fsmonitor=mk_monitor", "core.pager=mk_pager", "credential.helper=foo"),
    *("gpg.program=mk_helper", "alias.st=!mk_helper", "core.sshCommand=mk_helper", "filter.y.clean=grep -v zzz"),
)
_VERSIONS = tuple(
    f"{place} {file} {value}"
    for place, (file, programs) in SHIMS.items()
    for value in (
        ("python path:./evil", f"{programs[0]} ../../../project/evil", "python3 ref:../../../project/evil")
        if "asdf" in place
        else ("../../../project/evil", "../../../project/evil:system", "3.11/../../../../project/evil", "1.2.3")
    )
)
_LINKS = (
    *("linked.py outside/file", "linked.py home/.bashrc", "linked.txt project/.git/config", "linked.py outside/cached"),
    *(
        "linked.txt project/.git/hooks/pre-commit",
        "sub/linked.py home/.ssh/authorized_keys",
        "linked.txt home/.gitconfig",
    ),
)
_COMMANDS = (
    *("sh tools/b.sh", "cd tools && ./b.sh", "cd tools; sh b.sh", "python3 tools", "python3 -m tools.hook"),
    *(
        "for f in tools/b.sh; do sh $f; done",
        "make -s h",
        "./tools/b.sh",
        "bash -c 'cd tools && ./b.sh'",
        "npm run -s mcp",
    ),
    *("cd ./tools && python3 hook.py", "env X=1 tools/b.sh", "(cd tools; . ./b.sh)", "pushd tools && ./b.sh; popd"),
    *(
        "$TEAMWRIGHT_PROJECT_DIR/tools/b.sh",
        "node tools/b.js",
        "perl -I tools tools/b.pl",
        "sh < tools/b.sh",
        "cat a.py",
    ),
)
"""Commands of the repository's own entries that run files of the project."""
SCRIPTS = (
    *("tools/b.sh", "tools/__main__.py", "tools/hook.py", "tools/__init__.py", "tools/b.js", "tools/b.pl", "Makefile"),
    *("package.json", "tools/clean.sh"),
)
"""The files that these commands run. They do nothing until they are changed."""
_EVENTS = ("PreToolUse", "PostToolUse", "SessionStart", "SessionEnd", "UserPromptSubmit", "Stop")
_OWN_COMMANDS = ("egrep -c one a.py", "tar tf x.tar.gz", "env true", "cat a.py | sort", "sh -c 'grep -c one a.py'")
"""Commands of the person's own hooks. They start helpers, and name nothing of the project that would run."""

MODES = ("default", "default", "plan", "acceptEdits", "acceptEdits")
SANDBOXES = ("off", "off", "auto")
ACTS = ("status", "diff", "undo --yes", "check", "doctor", "log", "trust --show", "permissions", "sessions")
"""Commands of a person, run in the project after a session."""
MEMBER = "member process"
"""The act of starting a member in its own process."""


@dataclass(frozen=True, slots=True)
class Case:
    """A session: its surroundings, mode, mode of the sandbox and trust, its calls in order, and acts after it.

    A call is a text, `TOOL(ARGUMENT)`; an act is a command of `teamwright`, or `MEMBER`.
    """

    surroundings: tuple[str, ...]
    mode: str = "default"
    sandbox: str = "off"
    trusted: bool = False
    calls: tuple[str, ...] = ()
    acts: tuple[str, ...] = ()

    def words(self) -> list[str]:
        """Return the arguments of the fuzz that play this case again."""
        found = [f"--with={one}" for one in self.surroundings]
        found += [f"--mode={self.mode}", f"--sandbox={self.sandbox}", *(["--trusted"] if self.trusted else [])]
        return [*found, *(f"--call={one}" for one in self.calls), *(f"--act={one}" for one in self.acts)]


def pick_case(pick: random.Random) -> Case:
    """Return a session without calls: one to five surroundings, with what they need to have an effect."""
    found: list[str] = []
    for _ in range(pick.choice((1, 1, 2, 2, 3, 4))):
        found += pick.choices((_path, _variable, _git, _named_in_git, _version, _link, _own_hook, _entry), _WEIGHTS)[0](
            pick
        )
    if pick.random() < 0.25:
        found += _path(pick)
    acts = tuple(pick.sample(ACTS, pick.choice((0, 1, 1, 2)))) + ((MEMBER,) if pick.random() < 0.05 else ())
    case = Case(tuple(dict.fromkeys(found)), pick.choice(MODES), pick.choice(SANDBOXES), acts=acts)
    if pick.random() > (0.8 if any(one.startswith("entry ") for one in found) else 0.1):
        return case
    # Who trusts `python3 tools` trusts the version file that is there at that time, and what settings of git name.
    kept = tuple(one for one in found if not one.startswith(("version ", "git ")))
    return replace(case, trusted=True, surroundings=kept)


def _path(pick: random.Random) -> list[str]:
    """A directory of the project on the PATH, with marking programs of some names: a line is judged by its own name."""
    names = [name for name in PROGRAM_NAMES if pick.random() < 0.12]
    names += pick.sample(_HELPERS, pick.randrange(1, 6))
    return [f"path {pick.choice(_PATHS)} {' '.join(dict.fromkeys(names))}"]


def _variable(pick: random.Random) -> list[str]:
    return [f"variable {pick.choice(_VARIABLES)}"]


def _git(pick: random.Random) -> list[str]:
    return [f"git {pick.choice(_GIT)}"]


def _named_in_git(pick: random.Random) -> list[str]:
    return [f"git {pick.choice(_BY_NAME)}", *_path(pick)]


def _version(pick: random.Random) -> list[str]:
    return [f"version {pick.choice(_VERSIONS)}"]


def _link(pick: random.Random) -> list[str]:
    return [f"link {pick.choice(_LINKS)}"]


def _own_hook(pick: random.Random) -> list[str]:
    return [f"hook {pick.choice(_EVENTS)} {pick.choice(_OWN_COMMANDS)}", *_path(pick)]


def _entry(pick: random.Random) -> list[str]:
    """An entry of the repository that runs a file, at times a file that is changed after trust."""
    kind = pick.choices(("hook", "server", "skill", "filter"), (6, 1, 1, 2))[0]
    command = "./tools/clean.sh" if kind == "filter" else pick.choice(_COMMANDS)
    where = pick.choice(_EVENTS) if kind == "hook" else "x"
    changed = [f"changed {pick.choice(SCRIPTS)}"] if pick.random() < 0.6 else []
    return [f"entry {kind} {where} {command}", *changed]


_WEIGHTS = (5, 6, 4, 2, 2, 2, 1, 3)
