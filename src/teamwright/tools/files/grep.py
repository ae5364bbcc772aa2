"""Grep: what is inside files. By ripgrep if the machine has it, else by our own search, with the same answers."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from teamwright.agent.tool import Tool, ToolContext, ToolInput, ToolResult
from teamwright.permissions.left_out import NOTHING_LEFT_OUT, LeftOut, Segments, expression
from teamwright.permissions.verdict import Access
from teamwright.protocol.values import dataclass
from teamwright.storage.globs import alternatives, compiled
from teamwright.storage.output import Output
from teamwright.storage.processes.process import Command, run
from teamwright.tools.files import globs
from teamwright.tools.files.glob import shorter
from teamwright.tools.files.search import Search

WITHIN_S = 20.0
LINE_CUT = 500
TEXT_CUT = 30_000
DEFAULT_LINES = 200
_MOST_READ = 8_000_000
_ESCAPED = re.compile(r"[\\\[\]{}! ]")
_PACKAGE = Path(__file__).parents[3]

Mode = Literal["content", "files_with_matches", "count"]


class GrepInput(ToolInput):
    """Parameters of Grep; the short ones are spelt as the flags that models know."""

    model_config = ConfigDict(extra="forbid", defer_build=True, validate_by_name=True, validate_by_alias=True)

    pattern: str = Field(description="Regular expression.")
    path: str | None = Field(None, description="File or directory.")
    glob: str | None = Field(None, description="Path pattern: `src/**/*.py`, `!*.min.js`.")
    type: str | None = Field(None, description="Language: py, ts, go, rust, …")
    output_mode: Mode = Field("files_with_matches", description="Kind of result.")
    ignore_case: bool = Field(False, alias="-i", description="Case ignored.")
    line_numbers: bool = Field(True, alias="-n", description="Line numbers.")
    after: int = Field(0, alias="-A", ge=0, le=100, description="Lines after.")
    before: int = Field(0, alias="-B", ge=0, le=100, description="Lines before.")
    around: int = Field(0, alias="-C", ge=0, le=100, description="Lines around.")
    multiline: bool = Field(False, description="Matches across lines.")
    head_limit: int | None = Field(None, ge=1, description="Number of lines to return; default 200.")


@dataclass(slots=True)
class _Answer:
    """What an engine gave: its output, whether that is all, or why there is none."""

    output: str = ""
    whole: bool = True
    timed_out: bool = False
    trouble: str = ""


class Grep(Tool[GrepInput]):
    """Searches the contents of files. `engine` is the path of ripgrep; None looks for it, empty does without."""

    name = "Grep"
    input_type = GrepInput

    def __init__(self, engine: str | None = None) -> None:
        self._engine = engine

    def read_only(self, call: GrepInput) -> bool:
        """Always."""
        return True

    def summary(self, call: GrepInput) -> str:
        """The pattern, and where."""
        where = " ".join(part for part in (call.path, call.glob, call.type) if part)
        return call.pattern[:100] + (f" in {where}" if where else "")

    def access(self, call: GrepInput, ctx: ToolContext) -> Access:
        """The file or the directory is read."""
        return Access(reads=(ctx.workplace.resolve(call.path) if call.path else ctx.workplace.cwd,))

    async def run(self, call: GrepInput, ctx: ToolContext) -> ToolResult:
        """Search."""
        place = ctx.workplace
        root = place.resolve(call.path) if call.path else place.cwd
        if not (root.is_dir() or root.is_file()):
            return ToolResult.error(f"There is no file or directory {root}.", f"You are in {place.cwd}.")
        if call.type and globs.extensions(call.type) is None:
            return ToolResult.error(f"The type {call.type!r} is not known.", f"Known: {' '.join(globs.TYPES)}.")
        left_out = ctx.left_out(self.name, root) if root.is_dir() else NOTHING_LEFT_OUT
        search = _search(call, root, left_out)
        answer = await self._asked(search)
        if answer.trouble:
            return ToolResult.error(
                f"The pattern cannot be read: {answer.trouble}", "Escape ( ) [ ] { } . * + ? | ^ $ to mean them."
            )
        try:
            files = _Wanted.of(call, root, left_out)
        except re.error as problem:
            return ToolResult.error(f"The glob cannot be read: {problem}.")
        return _told(call, _lines(answer.output, call, files, place.cwd), answer, left_out.note(str(root)))

    async def _asked(self, search: Search) -> _Answer:
        engine = ripgrep() if self._engine is None else self._engine
        if engine:
            answer = await _run(_ripgrep_argv(engine, search), {"PATH": os.environ.get("PATH", "")})
            if not answer.trouble:
                return answer
        # Ours reads what ripgrep does not: looking around, back references, a brace that is only a brace.
        path = os.pathsep.join(part for part in (str(_PACKAGE), os.environ.get("PYTHONPATH", "")) if part)
        argv = (sys.executable, "-P", "-m", "teamwright.tools.files.search", search.as_argument())
        return await _run(argv, {"PYTHONPATH": path, "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"})


@cache
def ripgrep() -> str:
    """The path of ripgrep, or empty."""
    return shutil.which("rg") or ""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Which files of the answer count: paths below `start` that match all of `match` and none of `refuse`.

    What must not be read was not searched; `but` makes sure that no engine shows it.
    """

    start: int
    match: tuple[re.Pattern[str], ...]
    refuse: tuple[re.Pattern[str], ...]
    but: re.Pattern[str] | None = None

    @classmethod
    def of(cls, call: GrepInput, root: Path, left_out: LeftOut) -> _Wanted:
        if root.is_file():
            return cls(0, (), ())
        given = globs.listed(call.glob or "")
        match = [compiled(wanted)] if (wanted := [one for one in given if one[0] != "!"]) else []
        if call.type:
            match.append(compiled(_names_of(call.type)))
        refuse = [compiled([one[1:]]) for one in given if one[0] == "!"]
        but = expression(left_out.patterns) if left_out.patterns else None
        return cls(len(str(root).rstrip("/")) + 1, tuple(match), tuple(refuse), but)

    def __contains__(self, path: str) -> bool:
        if self.but is not None and self.but.fullmatch(path, self.start):
            return False
        return all(one.match(path, self.start) for one in self.match) and not any(
            one.match(path, self.start) for one in self.refuse
        )


def _names_of(kind: str) -> list[str]:
    return [f"*.{extension}" for extension in globs.extensions(kind) or ()]


def _search(call: GrepInput, root: Path, left_out: LeftOut) -> Search:
    # Only patterns of names narrow the search itself: both engines read those alike; the rest is done on the answer.
    wanted = [one for one in globs.listed(call.glob or "") if one[0] != "!"]
    names = wanted if wanted and not any("/" in one for one in wanted) else _names_of(call.type) if call.type else []
    return Search(
        call.pattern,
        str(root),
        mode=call.output_mode,
        names=tuple(names),
        but=left_out.patterns,
        ignore_case=call.ignore_case,
        before=call.before or call.around,
        after=call.after or call.around,
        multiline=call.multiline or "\\n" in call.pattern or "\n" in call.pattern,
    )


def _ripgrep_argv(engine: str, search: Search) -> tuple[str, ...]:
    flags = ["--no-config", "--color=never", "--no-heading", "--with-filename", "--null", "--crlf", "--sort=path"]
    flags += [
        "--hidden",
        "--glob=!.git",
        "--no-ignore-dot",
        "--no-ignore-exclude",
        "--no-ignore-global",
        "--no-messages",
    ]
    if search.mode == "content":
        flags += ["--line-number", f"--before-context={search.before}", f"--after-context={search.after}"]
    else:
        flags.append("--count" if search.mode == "count" else "--files-with-matches")
    if search.multiline:
        flags += ["--multiline", "--multiline-dotall"]
    if search.ignore_case:
        flags.append("--ignore-case")
    if search.names and not Path(search.root).is_file():
        flags += [f"--type-add=wanted:{name}" for one in search.names for name in alternatives(one)]
        flags.append("--type=wanted")
    flags += [f"--iglob=!{_anchored(search.root, segments)}" for segments in search.but]
    return (engine, *flags, "-e", search.pattern, "--", search.root)


def _anchored(root: str, segments: Segments) -> str:
    """A pattern as ripgrep reads it, from the root on, where it is started."""
    begin = _ESCAPED.sub(r"\\\g<0>", root.rstrip("/")).replace("*", r"\*").replace("?", r"\?")
    rest = (part if part == "**" else re.sub(r"\*+", "*", _ESCAPED.sub(r"\\\g<0>", part)) for part in segments)
    return "/".join((begin, *rest))


async def _run(argv: Sequence[str], env: dict[str, str]) -> _Answer:
    output, errors = Output(_MOST_READ), Output(2_000)
    outcome = await run(Command(argv, Path("/"), env, by_agent=False), output, errors, timeout_s=WITHIN_S, grace_s=0.5)
    if outcome.exit_code == 2 and not outcome.timed_out and outcome.errors.strip():
        return _Answer(trouble=outcome.errors.replace("regex parse error:", "").strip()[-300:])
    return _Answer(output.head(), not output.is_cut, outcome.timed_out)


def _lines(output: str, call: GrepInput, files: _Wanted, cwd: Path) -> list[str]:
    """The answer's lines, of the files that count, with paths as they are told."""
    if call.output_mode == "files_with_matches":
        found = [path for path in output.split("\0") if path.strip() and path in files]
        return [shorter(path, cwd) for path in sorted(found, key=_newest)]
    made: list[str] = []
    for ended in output.split("\n"):
        line = ended.removesuffix("\r")  # ripgrep ends its own lines that way too, once it was told of CR LF
        path, apart, rest = line.partition("\0")
        if not apart:
            if line == "--" and made and made[-1] != "--":
                made.append(line)
        elif path in files:
            made.append(_line(shorter(path, cwd), rest, call))
    return made[:-1] if made and made[-1] == "--" else made


def _line(path: str, rest: str, call: GrepInput) -> str:
    if call.output_mode == "count":
        return f"{path}:{rest}"
    found = re.match(r"(\d+)([:-])", rest)
    if found is None:  # ripgrep's word on a binary file
        return f"{path}: {rest}"
    text = rest[found.end() :]
    cut = text if len(text) <= LINE_CUT else f"{text[:LINE_CUT]} [… {len(text) - LINE_CUT:,} characters more]"
    number = f"{found.group(1)}{found.group(2)}" if call.line_numbers else ""
    return f"{path}{found.group(2)}{number}{cut}"


def _newest(path: str) -> tuple[float, str]:
    try:
        return -os.stat(path).st_mtime, path
    except OSError:
        return 0.0, path


def _told(call: GrepInput, lines: list[str], answer: _Answer, left_out: str) -> ToolResult:
    limit = call.head_limit or DEFAULT_LINES
    given: list[str] = []
    room = TEXT_CUT
    for line in lines[:limit]:
        room -= len(line) + 1
        if room < 0:
            break
        given.append(line)
    notes: list[str] = []
    if len(given) < len(lines):
        notes.append(f"[{len(given)} of {len(lines)} lines: narrow the search, or give head_limit]")
    if answer.timed_out:
        notes.append(f"[the search was ended after {WITHIN_S:g} s: narrow it by path, glob or type]")
    elif not answer.whole:
        notes.append("[there was more than can be read: narrow the search]")
    if left_out:
        notes.append(left_out)
    found = sum(line != "--" for line in lines)
    if not found:
        notes.insert(0, "Nothing found. (What git ignores and what is no text is left out.)")
    thing = "line" if call.output_mode == "content" else "file"
    return ToolResult(
        "\n".join([*given, *notes]), brief=f"{found} {thing}{'' if found == 1 else 's'}", facts={"count": found}
    )
