"""The files of a project that a shell line would run: what trust covers, and what edits must not change unasked.

The line of a hook, a server, a status line, a check or a skill is parsed like a command of an agent. Scripts of shells
and settings of builders are read for what they name, within bounds. A line whose program cannot be known has a reason
for it (`unknown`): a repository's hook then runs in the sandbox. Runs nothing.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field

from teamwright.permissions.command_words import word_set
from teamwright.permissions.file_changing_commands import find_changes
from teamwright.permissions.read_only_commands import prove_read_only
from teamwright.permissions.run_files import SCRIPT_EXTENSIONS, RunFiles, is_program
from teamwright.permissions.shell.parsed_line import ShellCommand
from teamwright.permissions.shell.syntax_walk import parse_command
from teamwright.processes.named_files import tree_files
from teamwright.storage.read_bounded import read_plain

MAX_SCRIPTS = 60
"""Scripts and settings that are read for one line."""

MAX_DEPTH = 4
"""Scripts that are read because another one names them."""

MAX_SCRIPT_BYTES = 256_000

_PLACE = "/.project-root"
"""Stands for the root in a line, so that no character of the root's path is read as code."""

_ROOT = re.compile(
    r"\$\{?(?:CLAUDE_PROJECT_DIR|TEAMWRIGHT_PROJECT_DIR)\b(?::?-[^}]*)?\}?"
    r"|\$\(\s*git rev-parse --show-toplevel(?:\s+2>\s*/dev/null)?(?:\s*\|\|\s*pwd)?\s*\)"
    r"|`git rev-parse --show-toplevel`"
)
_HERE = re.compile(r"\$\{?PWD\b\}?|\$\(\s*pwd\s*\)|`pwd`")

_PYTHON = re.compile(r"python[\d.]*|pypy[\d.]*|uv run|ipython")
_SHELLS = word_set("sh bash dash zsh ksh fish ash mksh source .")
_INTERPRETERS = word_set(
    "node nodejs deno bun tsx ts-node ruby perl php lua luajit Rscript tclsh wish osascript pwsh java dotnet guile"
    " racket escript elixir groovy scala kotlin swift julia awk gawk mawk nawk sed"
)
_SHELL_NAMES = (".sh", ".bash", ".zsh", ".ksh")

_RUNNERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake", "remake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(
        ("npm", "npx", "pnpm", "pnpx", "yarn", "bun", "bunx", "node-gyp", "turbo", "nx", "lerna", "corepack"),
        ("package.json",),
    ),
    "just": ("justfile", "Justfile", ".justfile"),
    **dict.fromkeys(
        ("task", "go-task"),
        ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml", "taskfile.yaml", "Taskfile.dist.yml", "Taskfile.dist.yaml"),
    ),
    "rake": ("Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"),
    **dict.fromkeys(("invoke", "inv"), ("tasks.py",)),
    "fab": ("fabfile.py",),
    "nox": ("noxfile.py",),
    "tox": ("tox.ini", "pyproject.toml", "setup.cfg"),
    "pytest": ("conftest.py", "pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg"),
    **dict.fromkeys(
        ("docker", "podman", "docker-compose", "podman-compose", "nerdctl"),
        ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml", "Dockerfile", "Containerfile"),
    ),
    "pre-commit": (".pre-commit-config.yaml",),
    "lefthook": ("lefthook.yml", "lefthook.yaml", "lefthook.toml", "lefthook.json"),
    "cargo": ("Cargo.toml", "build.rs"),
    "go": ("go.mod", "go.work"),
    **dict.fromkeys(
        ("gradle", "gradlew"), ("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
    ),
    **dict.fromkeys(("mvn", "mvnw"), ("pom.xml",)),
    "ant": ("build.xml",),
    **dict.fromkeys(("bundle", "bundler"), ("Gemfile",)),
    "composer": ("composer.json",),
    "mix": ("mix.exs",),
    **dict.fromkeys(("uv", "uvx", "poetry", "pdm", "hatch", "rye", "pipx", "pipenv"), ("pyproject.toml", "Pipfile")),
    "deno": ("deno.json", "deno.jsonc"),
    **dict.fromkeys(("foreman", "honcho", "overmind", "hivemind"), ("Procfile",)),
    "bazel": ("BUILD", "BUILD.bazel", "WORKSPACE", "MODULE.bazel"),
    "cmake": ("CMakeLists.txt",),
    "ninja": ("build.ninja",),
    "vagrant": ("Vagrantfile",),
}
"""Programs that run what a file of the project says, and the names of that file in the directory or above it."""

_PLAIN = word_set(
    "cd pushd popd dirs echo printf read mapfile readarray export unset local declare typeset readonly set shift"
    " test [ [[ ]] true false : exit return break continue trap umask ulimit wait kill sleep date tee tr cut sort"
    " uniq head tail grep egrep fgrep rg jq yq cat wc nl basename dirname realpath readlink pwd ls stat file touch"
    " mkdir rmdir rm cp mv ln chmod mktemp env id whoami hostname uname git gh curl wget logger notify-send say"
    " afplay paplay beep tput column diff cmp comm md5sum sha1sum sha256sum shasum base64 od xxd seq yes command"
    " type which hash alias unalias getopts shopt let times caller disown fg bg jobs pgrep ps df du exec"
)
"""Programs and builtins of a shell that run no code of a project. git has its own entries of trust."""

_ALLOWED_DOUBTS = ("it defines a function",)
_INCLUDE = re.compile(r"^\s*-?s?include\s+(.+)$", re.MULTILINE)
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_IMPORT = re.compile(
    r"""(?:require\(\s*|from\s+|import\s+(?:\(\s*)?)["']([^"'\n]+)["']""",
)
_NODE_BUILTINS = word_set(
    "assert async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns domain"
    " events fs http http2 https inspector module net os path perf_hooks process punycode querystring readline repl"
    " stream string_decoder sys timers tls trace_events tty url util v8 vm wasi worker_threads zlib"
)
_WORDS = re.compile(r"[\s;&|()<>`\"'{}=,\[\]]+")


def find_run_files(line: str, root: Path, base: Path | None = None) -> RunFiles:
    """Return the files below the root that a shell line in `base` would run, by default at the root."""
    search = _Search(Path(os.path.realpath(root)))
    search.read_line(line, base or root, 0)
    return search.result()


def find_program_files(argv: Sequence[str], root: Path, base: Path | None = None) -> RunFiles:
    """Return the files below the root that a program with these arguments would run, without a shell."""
    place = _PLACE if base in {None, root} else str(base)
    line = shlex.join(_HERE.sub(place, _ROOT.sub(_PLACE, word)) for word in argv)
    return find_run_files(line, root, base)


class _Search(Struct):
    """The state of one search. `done` are the scripts and settings that were read.

    `data` are files that plain programs read: they count only if something else may run what is read.
    """

    root: Path
    files: set[Path] = field(default_factory=set[Path])
    settings: set[Path] = field(default_factory=set[Path])
    trees: set[Path] = field(default_factory=set[Path])
    unknown: str = ""
    data: set[Path] = field(default_factory=set[Path])
    done: set[Path] = field(default_factory=set[Path])

    def result(self) -> RunFiles:
        files = self.files | self.data if self.unknown else self.files
        return RunFiles(frozenset(files), frozenset(self.settings), frozenset(self.trees), self.unknown)

    def doubt(self, why: str) -> None:
        self.unknown = self.unknown or why

    def read_line(self, line: str, base: Path, depth: int) -> None:
        """Read a shell line, or the text of a script, that runs in `base`."""
        text = _HERE.sub(_PLACE if base == self.root else str(base), _ROOT.sub(_PLACE, line))
        parsed = parse_command(text, base)
        if not parsed.is_valid or (parsed.doubt and parsed.doubt not in _ALLOWED_DOUBTS):
            self.doubt(parsed.doubt or "it is no valid line of a shell")
            self._add_named(text, [base])
        for command in parsed.commands:
            self.read_command(command, depth)
        for redirect in parsed.redirects:
            if redirect.target is not None and not redirect.writes:
                places = [place for place in redirect.directories if place is not None]
                self.data |= self._existing(redirect.target, self._places(places))

    def read_command(self, command: ShellCommand, depth: int) -> None:
        """Read one simple command."""
        places = self._places(place for place in command.directories if place is not None)
        if None in command.directories:
            self.doubt("its directory is only known to the shell")
            places = [*places, self.root]
        for at, word in enumerate(command.words):
            if word is not None and at in command.globs:
                self._add_matches(word, places)
            elif word is not None and at and os.path.basename(command.name or "") in _PLAIN:
                self.data |= self._existing(word, places)
            elif word is not None:
                self.files |= self._existing(word, places)
            else:
                self._add_shape(command.shape(at))
        if command.role == "wrap" or (command.role == "guess" and command.name and "/" not in command.name):
            return
        if command.name is None:
            self.doubt("its program is only known to the shell")
            return
        self._add_program(command, command.name, places, depth)

    def _places(self, directories: Iterable[Path]) -> list[Path]:
        return [self._place(str(directory)) for directory in directories]

    def _place(self, path: str) -> Path:
        return Path(f"{self.root}{path.removeprefix(_PLACE)}") if path.startswith(_PLACE) else Path(path)

    def _inside(self, word: str, places: Iterable[Path]) -> Iterator[Path]:
        """Yield the real paths below the root that a word may name."""
        expanded = os.path.expanduser(word)
        for place in places:
            try:
                path = Path(os.path.realpath(place / self._place(expanded)))
            except (OSError, ValueError):  # a name that no file can have
                return
            if path != self.root and path.is_relative_to(self.root):
                yield path

    def _existing(self, word: str, places: Sequence[Path]) -> set[Path]:
        """Return the plain files that a word names: a program that is not known may run them."""
        parts = {word, word.rpartition("=")[2]} - {""}
        return {path for part in parts for path in self._inside(part, places) if os.path.isfile(path)}

    def _add_shape(self, shape: Sequence[str | None]) -> None:
        """Add the files that the fixed end of an unknown word names, from the root on."""
        end = shape[-1] if shape else None
        if end is not None and end.startswith("/"):
            self.files |= {path for path in self._inside(end.lstrip("/"), [self.root]) if os.path.isfile(path)}

    def _add_matches(self, pattern: str, places: Iterable[Path]) -> None:
        fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
        for path in self._inside(fixed, places) if fixed else ():
            self._add_tree(path)

    def _add_tree(self, path: Path) -> None:
        if tree_files(path) is None:
            self.doubt(f"{os.path.relpath(path, self.root)} has too many files")
        self.trees.add(path)

    def _add_named(self, text: str, places: Sequence[Path]) -> None:
        """Add the programs that a text names which cannot be parsed as lines of a shell."""
        for word in set(_WORDS.split(text)):
            for path in self._inside(word.lstrip("@-"), places) if word.strip("./@-") else ():
                if os.path.isfile(path) and is_program(path):
                    self.files.add(path)

    def _add_program(self, command: ShellCommand, name: str, places: list[Path], depth: int) -> None:
        args = [*command.words[1:]]
        if "/" in name:
            found = list(self._inside(name, places))
            for path in found:
                self.files.add(path)
                self._read_script(path, places, depth)
            if found or not os.path.isabs(os.path.expanduser(name)):
                return
        program = os.path.basename(name)
        if program in _SHELLS:
            self._add_shell(program, args, places, depth)
        elif _PYTHON.fullmatch(program):
            self._add_python(args, places, depth)
        elif program in _RUNNERS:
            self._add_runner(program, args, places, depth)
        elif program in _INTERPRETERS:
            self._add_interpreter(program, args, places, depth)
        elif not (program in _PLAIN or prove_read_only(command) is not None or find_changes(command) is not None):
            self.doubt(f"{program} may run code of the project")

    def _add_shell(self, program: str, args: list[str | None], places: list[Path], depth: int) -> None:
        if any(arg is not None and re.fullmatch(r"-[a-z]*c[a-z]*", arg) for arg in args):
            return  # its line is among the commands
        script = next((arg for arg in args if arg is None or not arg.startswith("-")), "")
        if not script:
            self.doubt(f"{program} runs what it reads")
            return
        if script == "-" or "-s" in args:
            self.doubt(f"{program} runs what it reads")
        for path in self._inside(script, places):
            self.files.add(path)
            self._read_script(path, places, depth, is_shell=True)

    def _add_python(self, args: list[str | None], places: list[Path], depth: int) -> None:
        isolated = any(arg is not None and re.fullmatch(r"-[A-Za-z]*[IP][A-Za-z]*", arg) for arg in args)
        for at, arg in enumerate(args):
            if arg is None:
                break
            flag = re.fullmatch(r"-[A-Za-bd-ln-zA-Z]*([mc])(.*)", arg, re.DOTALL)
            if flag is not None:
                value = flag[2] or (args[at + 1] if at + 1 < len(args) else None)
                if flag[1] == "m" and value is not None:
                    self._add_module(value, places)
                if not isolated:
                    self.doubt("Python finds modules in its directory")
                return
            if arg.startswith("-") and arg != "-":
                continue
            self._add_script_of_python(arg, places, depth)
            return
        self.doubt("Python runs what it reads")

    def _add_script_of_python(self, script: str, places: list[Path], depth: int) -> None:
        if script == "-":
            self.doubt("Python runs what it reads")
        for path in self._inside(script, places):
            if os.path.isdir(path):
                self._add_tree(path)
                continue
            self.files.add(path)
            self._read_script(path, places, depth)
            if path.parent == self.root:
                self.doubt("Python finds modules beside its script")
            else:
                self._add_tree(path.parent)

    def _add_module(self, module: str, places: list[Path]) -> None:
        if not _MODULE.fullmatch(module):
            return
        first = module.partition(".")[0]
        for place in places:
            for path in self._inside(f"{module.replace('.', '/')}.py", [place]):
                self.files.add(path)
            for path in self._inside(first, [place]):
                self._add_tree(path)

    def _add_interpreter(self, program: str, args: list[str | None], places: list[Path], depth: int) -> None:
        if None in args:
            self.doubt(f"{program} gets words that only the shell knows")
        known = [arg for arg in args if arg is not None]
        for path in {path for arg in known for path in self._inside(arg, places)}:
            if os.path.isdir(path):
                self._add_tree(path)
            elif os.path.isfile(path) or path.suffix in SCRIPT_EXTENSIONS:
                self.files.add(path)
                self._read_script(path, places, depth)
        if any(re.fullmatch(r"-[eprIM].*|--(?:eval|print|require|import|loader)\b.*", arg) for arg in known):
            self.doubt(f"{program} may load code of the project")
        edits = program in {"awk", "gawk", "mawk", "nawk", "sed", "osascript"}
        if not edits and not [arg for arg in known if not arg.startswith("-")]:
            self.doubt(f"{program} runs what it reads")

    def _add_runner(self, program: str, args: list[str | None], places: list[Path], depth: int) -> None:
        known = [arg for arg in args if arg is not None]
        bases = list(places)
        for option, value in itertools.pairwise(known):
            if option in {"-C", "--directory", "--prefix", "--cwd", "-d", "--dir"}:
                bases += self._inside(value, places)
        for base in bases:
            for directory in (base, *base.parents):
                if not directory.is_relative_to(self.root):
                    break
                self._add_settings(program, directory, depth)
        for word in known:
            for path in self._inside(word, bases):
                if os.path.isdir(path):
                    self._add_tree(path)
                elif os.path.isfile(path):
                    self._read_settings(path, depth)
        self.doubt(f"{program} runs what the project says")

    def _add_settings(self, program: str, directory: Path, depth: int) -> None:
        for name in _RUNNERS[program]:
            path = Path(os.path.realpath(directory / name))
            if path.is_relative_to(self.root):
                self.settings.add(path)
                self._read_settings(path, depth)

    def _read_settings(self, path: Path, depth: int) -> None:
        """Read a Makefile, a package.json and the like for the programs that it names."""
        text = self._text(path, depth)
        self.settings |= {path} if text else set()
        if path.name == "package.json":
            for line in _package_scripts(text):
                self.read_line(line, path.parent, depth + 1)
            return
        for line in _INCLUDE.findall(text):
            for word in line.split():
                for found in self._inside(word, [path.parent]):
                    self.settings.add(found)
                    self._read_settings(found, depth + 1)
        self._add_named(text, [path.parent, self.root])

    def _read_script(self, path: Path, places: list[Path], depth: int, *, is_shell: bool = False) -> None:
        """Read a script for the programs that it names."""
        text = self._text(path, depth)
        if not text:
            return
        first = text.split("\n", 1)[0]
        by_shell = bool(re.match(r"#!.*\b(?:ba|da|z|k)?sh\b", first))
        if is_shell or by_shell or (not first.startswith("#!") and path.suffix in _SHELL_NAMES):
            for place in dict.fromkeys((*places, self.root)):
                self.read_line(text, place, depth + 1)
            return
        self._add_named(text, [path.parent, self.root])
        if path.suffix in {".js", ".mjs", ".cjs", ".ts", ".mts"} or "node" in first:
            self._read_imports(path, text, places, depth)

    def _read_imports(self, path: Path, text: str, places: list[Path], depth: int) -> None:
        for name in _IMPORT.findall(text):
            if not name.startswith("."):
                if not name.startswith("node:") and name.split("/")[0] not in _NODE_BUILTINS:
                    self.doubt(f"{path.name} loads {name[:40]} of the project")
                continue
            for form in (name, *(f"{name}{end}" for end in (".js", ".mjs", ".cjs", ".ts", ".json", "/index.js"))):
                for found in self._inside(form, [path.parent]):
                    if os.path.isfile(found):
                        self.files.add(found)
                        self._read_script(found, places, depth + 1)

    def _text(self, path: Path, depth: int) -> str:
        """Return the text of a script that was not read before; empty for a missing one, or beyond a limit."""
        if path in self.done or not os.path.isfile(path):
            return ""
        if len(self.done) >= MAX_SCRIPTS or depth >= MAX_DEPTH:
            self.doubt("it names too many scripts")
            return ""
        self.done.add(path)
        try:
            return read_plain(path, MAX_SCRIPT_BYTES).decode("utf-8", "replace")
        except OSError:
            self.doubt(f"{path.name} cannot be read")
            return ""


def _package_scripts(text: str) -> list[str]:
    try:
        scripts: Any = json.loads(text).get("scripts")
    except (ValueError, AttributeError, RecursionError):
        return []
    values = cast("dict[str, Any]", scripts).values() if isinstance(scripts, dict) else ()
    return [line for line in values if isinstance(line, str)]
