"""The files of a project that a shell line would run: what trust covers, and what edits must not change unasked.

The line of a hook, a server, a status line, a check or a skill is parsed like a command of an agent. Scripts and
settings of builders are read for what they name, within bounds. One rule decides about each program: either this search
finds every file of the project that it obeys, or the line is in doubt (`unknown`). A repository's hook in doubt runs in
the sandbox. So a program counts as known only if it is certain to obey no other file; a new one is in doubt.

Scripts are trusted and not hostile: they are searched for the words by which programs load code, not for tricks. Runs
nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.permissions.changed_files import find_changes
from teamwright.permissions.executed_files import SCRIPT_EXTENSIONS, RunFiles, links_on_the_way
from teamwright.permissions.program_config_files import (
    GH_READS,
    GH_VERBS,
    GIT_CHANGES,
    GIT_PLAIN_OPTIONS,
    GIT_RESTORES,
    GIT_SHOWS,
    GIT_STARTS,
    HARMLESS_PYTHON_MODULES,
    INTERPRETERS,
    MOVING_VARIABLES,
    NODE,
    NODE_BUILTINS,
    NODE_ENDS,
    NODE_LOADS,
    NODE_OPTION,
    OBEYING_WORDS,
    PLAIN_PROGRAMS,
    PROVEN_PROGRAMS,
    PYTHON,
    PYTHON_LOADS,
    RUNNERS,
    SETTING_BUILTINS,
    SHELLS,
    WRITING_PROGRAMS,
)
from teamwright.permissions.read_only_commands import prove_read_only
from teamwright.processes.mentioned_files import is_program, tree_files
from teamwright.processes.program_environment import form_of, is_changeable, own_variables
from teamwright.shell_lines.parse import parse_command
from teamwright.shell_lines.parsed_line import ParsedLine, ShellCommand
from teamwright.storage.files import read_beginning, read_plain

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

_ASSIGNED = re.compile(r"""(?<![\w$.-])([A-Za-z_]\w*)\+?=((?:"[^"]*"|'[^']*'|[^\s;&|<>()"'])*)""")
_NAME = re.compile(r"[A-Za-z_]\w*")
_SEARCHES = re.compile(r"\b(?:cd|pushd|popd)\b")
_PYTHON_VALUES = frozenset({"-W", "-X", "--check-hash-based-pycs"})
_ISOLATED = re.compile(r"-[bBdEisSOquvx]*[IP].*", re.DOTALL)
_CODE_FLAG = re.compile(r"-([bBdEiIOPqsSuvx]*)([mc])(.*)", re.DOTALL)
_PYTHON_IMPORT = re.compile(
    r"(?:^|[;:])[ \t]*(?:from[ \t]+(\.*[\w.]*)[ \t]+import[ \t(]+([\w, \t\n]+)|import[ \t]+([\w., \t]+))", re.M
)
_IN_PLACE = re.compile(r"-i|-i\.\w+|--in-place(?:=\.\w+)?")
_ALLOWED_DOUBTS = ("it defines a function",)
_INCLUDE = re.compile(r"^\s*-?s?include\s+(.+)$", re.MULTILINE)
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_IMPORT = re.compile(
    r"""(?:\brequire\s*\(\s*|\bfrom\s*|\bimport\s*(?:\(\s*)?)["']([^"'\n]+)["']""",
)
_WORDS = re.compile(r"[\s;&|()<>`\"'{}=,\[\]]+")


def find_run_files(line: str, root: Path, base: Path | None = None) -> RunFiles:
    """Return the files below the root that a shell line in `base` would run, by default at the root."""
    search = _Search(Path(os.path.realpath(root)))
    search.read_line(line, search.root if base is None or base == root else base, 0)
    return search.result()


def find_program_files(argv: Sequence[str], root: Path, base: Path | None = None) -> RunFiles:
    """Return the files below the root that a program with these arguments would run, without a shell."""
    place = _PLACE if base in {None, root} else str(base)
    line = shlex.join(_HERE.sub(place, _ROOT.sub(_PLACE, word)) for word in argv)
    return find_run_files(line, root, base)


class _Search(Struct):
    """The state of one search. `done` are the scripts and settings that were read, `written` the paths that the line
    may write, `links` the links of the project on the way to what it runs.

    `data` are files that plain programs read: they count only if something else may run what is read. `reads_project`:
    a plain program reads what a pattern finds. `listed` are the directories in which a loop finds names.
    """

    root: Path
    files: set[Path] = field(default_factory=set[Path])
    settings: set[Path] = field(default_factory=set[Path])
    trees: set[Path] = field(default_factory=set[Path])
    links: set[Path] = field(default_factory=set[Path])
    unknown: str = ""
    is_of_project: bool = False
    data: set[Path] = field(default_factory=set[Path])
    reads_project: bool = False
    listed: set[Path] = field(default_factory=set[Path])
    written: set[Path] = field(default_factory=set[Path])
    done: set[Path] = field(default_factory=set[Path])
    started: set[Path] = field(default_factory=set[Path])
    runs_git: bool = False
    executed: set[Path] = field(default_factory=set[Path])

    def result(self) -> RunFiles:
        run = {*self.files, *self.trees}
        if any(path == one or path.is_relative_to(one) for path in run for one in self.written):
            self.doubt("it writes what it runs")
        for path in self.listed if self.unknown or self.files else ():
            self._add_tree(path)
        in_doubt = bool(self.unknown)
        return RunFiles(
            frozenset(self.files | self.data if in_doubt else self.files),
            frozenset(self.settings),
            frozenset(self.trees),
            frozenset(self.links),
            self.unknown,
            in_doubt and (self.is_of_project or self.reads_project or bool(self.data or self.trees)),
            self.runs_git,
            frozenset(self.executed),
        )

    def _execute(self, path: Path) -> None:
        """Add a file that runs, also one whose name is that of a text."""
        self.files.add(path)
        self.executed.add(path)

    def doubt(self, why: str, *, of_project: bool = True) -> None:
        """Note that the line may obey more files. `of_project`: certain, or likely, ones of the project."""
        self.unknown = self.unknown or why
        self.is_of_project = self.is_of_project or of_project

    def read_line(self, line: str, base: Path, depth: int) -> None:
        """Read a shell line, or the text of a script, that runs in `base`."""
        text = _ROOT.sub(_PLACE, line)
        if not _SEARCHES.search(text):  # after `cd` the shell's own variable says where it is
            text = _HERE.sub(_PLACE if base == self.root else str(base), text)
        parsed = parse_command(text, base)
        if not parsed.is_valid or (parsed.doubt and parsed.doubt not in _ALLOWED_DOUBTS):
            self.doubt(parsed.doubt or "it is no valid line of a shell", of_project=self._names_project(text, base))
            self._add_named(text, [base])
        self._read_variables(text, parsed)
        for command in parsed.commands:
            self.read_command(command, depth)
        for redirect in parsed.redirects:
            places = self._places(place for place in redirect.directories if place is not None)
            if redirect.target is None:
                continue
            if redirect.writes:
                self.written |= set(self._inside(redirect.target, places, with_root=True))
            else:
                self.data |= self._existing(redirect.target, places)

    def _names_project(self, text: str, base: Path) -> bool:
        """Return True when a word of the text names something of the project."""
        words = {word.lstrip("@-") for word in _WORDS.split(text)}
        return any(os.path.lexists(path) for word in words if word.strip("./@-") for path in self._inside(word, [base]))

    def _read_variables(self, text: str, parsed: ParsedLine) -> None:
        """Doubt a line that sets a variable by which its programs may find code or settings of the project."""
        values: dict[str, list[str]] = {}
        for name, value in _ASSIGNED.findall(text):
            values.setdefault(name, []).append(value.strip("\"'"))
        names = {*values, *parsed.variables_set, *parsed.variables_exported}
        for command in parsed.commands:
            names.update(command.variables)
            if os.path.basename(command.name or "") in SETTING_BUILTINS:
                names.update(word for word in command.words[1:] if word is not None and _NAME.fullmatch(word))
        for name in sorted(names):
            form = form_of(name)
            if name != "PATH" and form is None and not MOVING_VARIABLES.fullmatch(name):
                continue
            if not values.get(name) or not all(self._is_outside_value(name, value) for value in values[name]):
                self.doubt(f"{name} may name code of the project")

    def _is_outside_value(self, name: str, value: str) -> bool:
        """Return True when a value certainly leads to no file of the project."""
        plain = re.sub(r"\$(?:PATH\b|\{PATH\})", "/usr/bin", value)
        plain = re.sub(r"\$(?:HOME\b|\{HOME\})|^~(?=/)|(?<=:)~(?=/)", lambda _: os.path.expanduser("~"), plain)
        if set(plain) & set("$`") or _PLACE in plain:
            return False
        if name == "PATH" or form_of(name) is not None:
            return own_variables({name: plain}, (str(self.root),)).get(name) == plain
        return plain.isdigit() or not is_changeable(plain, (str(self.root),))

    def read_command(self, command: ShellCommand, depth: int) -> None:
        """Read one simple command."""
        places = self._places(place for place in command.directories if place is not None)
        if None in command.directories:
            self.doubt("its directory is only known to the shell")
            places = [*places, self.root]
        program = os.path.basename(command.name or "")
        is_plain = program in PLAIN_PROGRAMS or program in PROVEN_PROGRAMS or program == "git"
        for at, word in enumerate(command.words):
            if word is not None and at in command.globs:
                self._add_matches(program, word, places, is_plain=is_plain and at > 0)
            elif word is not None and at and is_plain:
                self.data |= self._existing(word, places)
            elif word is not None:
                self.files |= self._existing(word, places)
            else:
                # The files that the fixed end of an unknown word names, from the root on.
                shape = command.shape(at)
                end = shape[-1] if shape else None
                if end is not None and end.startswith("/"):
                    self.files |= {path for path in self._inside(end.lstrip("/"), [self.root]) if os.path.isfile(path)}
        if command.role == "wrap":
            return
        if command.role == "guess" and command.name and "/" not in command.name:
            if any(os.path.basename(words[0] or "") in PLAIN_PROGRAMS for words in command.wrappers if words):
                self.doubt(f"{command.wrappers[0][0]} may run a program")
            return
        if command.name is None:
            self.doubt("its program is only known to the shell", of_project=False)
            return
        self._add_program(command, command.name, places, depth)

    def _places(self, directories: Iterable[Path]) -> list[Path]:
        return [self._place(str(directory)) for directory in directories]

    def _place(self, path: str) -> Path:
        return Path(f"{self.root}{path.removeprefix(_PLACE)}") if path.startswith(_PLACE) else Path(path)

    def _inside(self, word: str, places: Iterable[Path], *, with_root: bool = False) -> Iterator[Path]:
        """Yield the real paths below the root that a word may name."""
        expanded = os.path.expanduser(word)
        for place in places:
            try:
                named = place / self._place(expanded)
                path = Path(os.path.realpath(named))
            except (OSError, ValueError):  # a name that no file can have
                return
            if (path != self.root or with_root) and path.is_relative_to(self.root):
                yield path

    def _add_links(self, word: str, places: Iterable[Path]) -> None:
        """Add the links of the project on the way to a file that runs: another one in their place runs another file."""
        expanded = os.path.expanduser(word)
        for place in places:
            with contextlib.suppress(OSError, ValueError):
                named = os.path.normpath(place / self._place(expanded))
                self.links |= set(links_on_the_way(named, self.root))

    def _existing(self, word: str, places: Sequence[Path]) -> set[Path]:
        """Return the plain files that a word names: a program that is not known may run them."""
        parts = {word, word.rpartition("=")[2]} - {""}
        return {path for part in parts for path in self._inside(part, places) if os.path.isfile(path)}

    def _add_matches(self, program: str, pattern: str, places: Iterable[Path], *, is_plain: bool) -> None:
        """Add the directory in which a pattern finds names. Files of another name may be there later."""
        fixed = re.split(r"[*?\[]", pattern, maxsplit=1)[0].rpartition("/")[0]
        found = set(self._inside(fixed, places)) if fixed else set[Path]()
        if is_plain:
            self.reads_project = True
            self.listed |= found if program == ":" else set()  # the parser's command for the words of a loop
            return
        for path in found:
            self._add_tree(path)
        self.doubt("a pattern of names says what runs")

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
            self._add_links(name, places)
            for path in found:
                self._run_file(path, places, depth)
            if found:
                return
        program = os.path.basename(name)
        if program in SHELLS:
            self._add_shell(program, args, places, depth)
        elif PYTHON.fullmatch(program):
            self._add_python(args, places, depth)
        elif program in RUNNERS:
            self._add_runner(program, args, places, depth)
        elif program in NODE:
            self._add_node(program, args, places, depth)
        elif program in INTERPRETERS:
            self._add_interpreter(program, args, places)
        elif program in PROVEN_PROGRAMS:
            self._add_editor(command, program, args, places)
        elif program == "git":
            self._add_git(command, args, places)
        elif program == "gh":
            if len(args) < 2 or not {args[0]} <= GH_READS or args[1] not in GH_VERBS:
                self.doubt("gh may run git, an alias or an extension")
        elif program in PLAIN_PROGRAMS:
            self._add_plain(command, program, args, places)
        elif prove_read_only(command) is None and find_changes(command) is None:
            named = any(path for arg in args if arg for path in self._existing(arg, places) if is_program(path))
            self.doubt(f"{program} may run code of the project", of_project=named)

    def _run_file(self, path: Path, places: list[Path], depth: int) -> None:
        """Add a file of the project that is started as a program: its first line names the interpreter."""
        self._execute(path)
        if path in self.started:
            return
        self.started.add(path)
        try:
            start = read_beginning(path, 512)
        except OSError:
            return  # what appears there changes the digest
        if b"\0" in start:
            self.doubt(f"{path.name} is a compiled program")
            return
        first = start.split(b"\n", 1)[0].decode("utf-8", "replace")
        if not first.startswith("#!"):
            self._read_script(path, places, depth, language="shell")
            return
        place = f"{_PLACE}/{path.relative_to(self.root)}"
        if depth >= MAX_DEPTH:
            self.doubt("it names too many scripts")
            return
        for base in dict.fromkeys((*places, self.root)):
            self.read_line(f"{first[2:].strip()} {shlex.quote(place)}", base, depth + 1)

    def _add_plain(self, command: ShellCommand, program: str, args: list[str | None], places: list[Path]) -> None:
        pattern = OBEYING_WORDS.get(program)
        if pattern is not None:
            splits = any(arg is None and not command.is_one_word(at) for at, arg in enumerate(args, 1))
            if splits or any(arg is not None and pattern.fullmatch(arg) for arg in args):
                self.doubt(f"{program} may obey a file of the project")
        self._add_written(program, args, places)

    def _add_written(self, program: str, args: list[str | None], places: list[Path]) -> None:
        """Note the files that a program may write: what runs afterwards may be something else."""
        for arg in args if program in WRITING_PROGRAMS else ():
            if arg is not None and not arg.startswith("-"):
                self.written |= set(self._inside(arg, places, with_root=True))

    def _add_editor(self, command: ShellCommand, program: str, args: list[str | None], places: list[Path]) -> None:
        kept = [at for at, word in enumerate(command.words) if word is None or not _IN_PLACE.fullmatch(word)]
        edits = replace(
            command,
            words=tuple(command.words[at] for at in kept),
            globs=frozenset(kept.index(at) for at in command.globs if at in kept),
        )
        if len(kept) < len(command.words):
            self._add_written(program, args, places)
        if prove_read_only(edits) is None:
            for arg in args:
                self.files |= self._existing(arg, places) if arg is not None else set()
            self.doubt(f"{program} may start programs, or run a file of the project")

    def _add_git(self, command: ShellCommand, args: list[str | None], places: list[Path]) -> None:
        """Doubt git where it runs hooks or aliases, or obeys other settings than the repository's, which trust has."""
        self.runs_git = True
        words = list(args)
        while words[:1] and words[0] in GIT_PLAIN_OPTIONS:
            words = words[1:]
        if words[:1] == ["-C"] and len(words) > 1 and words[1] is not None and self._place(words[1]) == self.root:
            words = words[2:]
            places = [self.root]
        elsewhere = [place for place in places if place != self.root]
        verb = words[0] if words else ""
        rest = replace(command, words=("git", *words), globs=frozenset[int]()) if words != args else command
        if verb in GIT_RESTORES:
            self.written.add(self.root)
        is_option = verb is not None and verb.startswith("-")
        proven = verb in {"", "--version", "--help"} or (not is_option and prove_read_only(rest) is not None)
        if verb in GIT_SHOWS or verb in GIT_CHANGES:
            proven = proven or not any(word is None or GIT_STARTS.match(word) for word in words[1:])
        if elsewhere:
            self.doubt("git may find another repository there")
        elif not proven:
            self.doubt(f"git {verb or ''} may run hooks, aliases or other settings of the project".replace("  ", " "))

    def _add_shell(self, program: str, args: list[str | None], places: list[Path], depth: int) -> None:
        if program not in {"source", "."} and any(
            arg is not None and re.fullmatch(r"-[a-z]*c[a-z]*", arg) for arg in args
        ):
            return  # its line is among the commands
        script: str | None = ""
        left = iter(args)
        for arg in left:
            if arg is not None and re.fullmatch(r"[-+][A-Za-z]*[oO]", arg):
                next(left, None)
            elif arg is not None and re.fullmatch(r"--(?:rc|init-)file.*|-p", arg):
                self.doubt(f"{program} runs what it reads")
            elif arg is None or arg == "-" or not arg.startswith(("-", "+")):
                script = arg
                break
        if not script or script == "-" or "-s" in args:
            self.doubt(f"{program} runs what it reads", of_project=bool(self.data))
        if not script:
            return
        found = list(self._inside(script, places))
        self._add_links(script, places)
        for path in found:
            self._execute(path)
            self._read_script(path, places, depth, language="shell")
        if not found and script != "-":
            self.doubt(f"{os.path.basename(script)} may run code of the project", of_project=False)

    def _add_python(self, args: list[str | None], places: list[Path], depth: int) -> None:
        is_isolated = False
        left = iter(enumerate(args))
        for at, arg in left:
            if arg is None:
                break
            flag = _CODE_FLAG.fullmatch(arg)
            if flag is not None:
                is_isolated = is_isolated or bool(set(flag[1]) & {"I", "P"})
                self._add_python_code(flag, args[at + 1] if at + 1 < len(args) else None, places, is_isolated)
                return
            is_isolated = is_isolated or bool(_ISOLATED.fullmatch(arg))
            if arg in _PYTHON_VALUES:
                next(left, None)
                continue
            if arg.startswith("-") and arg != "-":
                continue
            self._add_script_of_python(arg, places, depth)
            return
        self.doubt("Python runs what it reads", of_project=bool(self.data))

    def _add_python_code(
        self, flag: re.Match[str], following: str | None, places: list[Path], is_isolated: bool
    ) -> None:
        value = flag[3] or following
        if value is None:
            self.doubt("its program is only known to the shell")
        elif flag[2] == "m":
            self._add_module(value, places)
            if not (is_isolated and value in HARMLESS_PYTHON_MODULES):
                self.doubt("Python finds modules in its directory")
            return
        if not is_isolated:
            self.doubt("Python finds modules in its directory")
        elif value is not None and PYTHON_LOADS.search(value):
            self._add_named(value, places)
            self.doubt("its Python code may start programs")

    def _add_script_of_python(self, script: str, places: list[Path], depth: int) -> None:
        if script == "-":
            self.doubt("Python runs what it reads", of_project=bool(self.data))
            return
        found = list(self._inside(script, places))
        self._add_links(script, places)
        for path in found:
            if os.path.isdir(path):
                self._add_tree(path)
                self._read_script(path / "__main__.py", places, depth, language="python")
                continue
            self._execute(path)
            self._read_script(path, places, depth, language="python")
            if path.parent == self.root:
                self.doubt("Python finds modules beside its script")
            else:
                self._add_tree(path.parent)
        if not found:
            self.doubt(f"{os.path.basename(script)} may run code of the project", of_project=False)

    def _add_module(self, module: str, places: list[Path]) -> None:
        if not _MODULE.fullmatch(module):
            return
        first = module.partition(".")[0]
        for place in places:
            for path in self._inside(f"{module.replace('.', '/')}.py", [place]):
                self._execute(path)
            for path in self._inside(first, [place]):
                self._add_tree(path)

    def _add_node(self, program: str, args: list[str | None], places: list[Path], depth: int) -> None:
        at = next((at for at, arg in enumerate(args) if arg is None or not arg.startswith("-")), len(args))
        if any(arg is not None and not NODE_OPTION.fullmatch(arg) for arg in args[:at]):
            self.doubt(f"{program} may load code of the project")
        script = args[at] if at < len(args) else None
        if script is None:
            self.doubt(f"{program} runs what it reads")
            return
        self._add_links(script, places)
        found = list(self._inside(script, places))
        if not any(map(os.path.exists, found)):
            found += self._inside(f"{script}.js", places)
        for path in found:
            if os.path.isdir(path):
                self._add_tree(path)
                self.doubt(f"{program} may load code of the project")
            elif os.path.isfile(path) or path.suffix in SCRIPT_EXTENSIONS:
                self._execute(path)
                self._read_script(path, places, depth, language="node")
        if not found:
            self.doubt(f"{os.path.basename(script)} may run code of the project", of_project=False)

    def _add_interpreter(self, program: str, args: list[str | None], places: list[Path]) -> None:
        """Add what an interpreter is given. It may find more code beside that, so the line is in doubt."""
        known = [arg for arg in args if arg is not None]
        found = {path for arg in known for path in self._inside(arg, places) if os.path.lexists(path)}
        for path in found:
            if os.path.isdir(path):
                self._add_tree(path)
            else:
                self._execute(path)
                self._add_named(self._text(path, MAX_DEPTH - 1), [path.parent, self.root])
        for arg in known:
            self._add_links(arg, places)
            self._add_named(arg, places)
        self.doubt(f"{program} may load code of the project", of_project=bool(found) or None in args)

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
                for name in RUNNERS[program]:
                    file = Path(os.path.realpath(directory / name))
                    if file.is_relative_to(self.root):
                        self.settings.add(file)
                        self._read_settings(file, depth)
        for word in known:
            for path in self._inside(word, bases):
                if os.path.isdir(path):
                    self._add_tree(path)
                elif os.path.isfile(path):
                    self._read_settings(path, depth)
        self.doubt(f"{program} runs what the project says")

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

    def _read_script(self, path: Path, places: list[Path], depth: int, *, language: str) -> None:
        """Read a script for what it runs and loads. `language`: shell, python or node."""
        text = self._text(path, depth)
        if not text:
            return
        if language == "shell":
            for place in dict.fromkeys((*places, self.root)):
                self.read_line(text, place, depth + 1)
            return
        self._add_named(text, [path.parent, self.root])
        loads = PYTHON_LOADS if language == "python" else NODE_LOADS
        if found := loads.search(text):
            self.doubt(f"{path.name} may start programs or load code ({' '.join(found[0].split())[:40]})")
        if language == "python":
            self._read_python_imports(path, text, places, depth)
        else:
            self._read_imports(path, text, places, depth)

    def _read_python_imports(self, path: Path, text: str, places: list[Path], depth: int) -> None:
        """Read the modules beside a script that it imports. Their directory counts as a whole, with new ones."""
        for source, imported, names in _PYTHON_IMPORT.findall(text):
            parts = source.lstrip(".").replace(".", "/")
            wanted = [parts, *(f"{parts}/{name}".strip("/") for name in _NAME.findall(imported))] if source else []
            wanted += [name.split()[0].replace(".", "/") for name in names.split(",") if name.split()]
            for name in wanted:
                for form in (f"{name}.py", f"{name}/__init__.py") if name else ():
                    for found in self._inside(form, [path.parent]):
                        if os.path.isfile(found):
                            self._read_script(found, places, depth + 1, language="python")

    def _read_imports(self, path: Path, text: str, places: list[Path], depth: int) -> None:
        for name in _IMPORT.findall(text):
            if set(name) & set("?#%\\"):
                self.doubt(f"{path.name} loads {name[:40]}, which names a file in another way")
            if not name.startswith("."):
                if name.removeprefix("node:").split("/")[0] not in NODE_BUILTINS:
                    self.doubt(f"{path.name} loads {name[:40]} of the project")
                continue
            for form in (name, *(f"{name}{end}" for end in NODE_ENDS)):
                for found in self._inside(form, [path.parent]):
                    self.files.add(found)
                    self.executed |= set() if found.suffix == ".json" else {found}
                    if found.name == "package.json" and os.path.isfile(found):
                        self.doubt(f"{path.name} loads the package {name[:40]}")
                    elif os.path.isfile(found):
                        self._read_script(found, places, depth + 1, language="node")

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
