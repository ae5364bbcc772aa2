"""The Grep tool: searches file contents with ripgrep, or with a search in Python that gives the same answers."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace
from pydantic import ConfigDict, Field

from teamwright.agent.tool import Tool, ToolContext, ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.excluded_paths import NOTHING_EXCLUDED, ExcludedPaths, Segments, compile_patterns
from teamwright.permissions.verdict import Access
from teamwright.processes.commands import ProcessCommand, ProcessOutput, run_command
from teamwright.processes.own_python import own_python_argv
from teamwright.processes.program_environment import find_program, safe_path
from teamwright.storage.files import alternatives, compile_globs
from teamwright.tools.files.file_walk import LeftOut, WalkTimeout, is_excluded, tracked_though_ignored, walk
from teamwright.tools.files.glob import relative_path, with_literal_brackets
from teamwright.tools.files.python_search import Search

TIMEOUT_S = 20.0
MAX_LINE = 500
MAX_TEXT = 30_000
DEFAULT_LINES = 200
_MAX_OUTPUT = 8_000_000
_MAX_ALSO = 90_000
"""Bytes of the paths that a search names besides its root: one argument of a program has at most 128 KiB."""

_LOOK_S = 1.0
"""Seconds of the look for what a search without a result left out."""

_GLOB_SPECIAL = re.compile(r"[\\\[\]{}! ]")

OutputMode = Literal["content", "files_with_matches", "count"]


class GrepInput(ToolInput):
    """Parameters of Grep. Short names are the flags that models know."""

    model_config = ConfigDict(extra="forbid", defer_build=True, validate_by_name=True, validate_by_alias=True)

    pattern: str = Field(description="Regular expression.")
    path: str | None = None
    glob: str | None = Field(None, description="`src/**/*.py`, `!*.min.js`.")
    type: str | None = Field(None, description="py, ts, go, rust, …")
    output_mode: OutputMode = "files_with_matches"
    ignore_case: bool = Field(False, alias="-i")
    line_numbers: bool = Field(True, alias="-n")
    after: int = Field(0, alias="-A", ge=0, le=100)
    before: int = Field(0, alias="-B", ge=0, le=100)
    around: int = Field(0, alias="-C", ge=0, le=100)
    multiline: bool = False
    head_limit: int | None = Field(None, ge=1, description="Most lines; default 200.")


class _SearchOutput(Struct):
    """The output of a search engine, whether it is complete, or the reason why there is none."""

    output: str = ""
    is_complete: bool = True
    timed_out: bool = False
    problem: str = ""


class Grep(Tool[GrepInput]):
    """The Grep tool. `engine` is the path of ripgrep; None searches for it, empty uses the search in Python."""

    name = "Grep"
    input_type = GrepInput

    def __init__(self, engine: str | None = None) -> None:
        self._engine = engine

    def is_read_only(self, call: GrepInput) -> bool:
        """Return True always."""
        return True

    def summary(self, call: GrepInput) -> str:
        """Return the pattern and the path."""
        where = " ".join(part for part in (call.path, call.glob, call.type) if part)
        return call.pattern[:100] + (f" in {where}" if where else "")

    def access(self, call: GrepInput, ctx: ToolContext) -> Access:
        """Return a read access to the file or directory."""
        return Access(reads=(ctx.resolve(call.path) if call.path else ctx.workplace.cwd,))

    async def run(self, call: GrepInput, ctx: ToolContext) -> ToolResult:
        """Run the search."""
        place = ctx.workplace
        root = ctx.resolve(call.path) if call.path else place.cwd
        if not (root.is_dir() or root.is_file()):
            return ToolResult.error(f"There is no file or directory {root}.", f"You are in {place.cwd}.")
        if call.type and type_extensions(call.type) is None:
            return ToolResult.error(f"The type {call.type!r} is not known.", f"Known: {' '.join(FILE_TYPES)}.")
        left_out = ctx.excluded_paths(self.name, root) if root.is_dir() else NOTHING_EXCLUDED
        search = _search(call, root, left_out)
        if root.is_dir():  # most repositories track nothing that they ignore: the search does not wait for git
            also, answer = await asyncio.gather(
                asyncio.to_thread(_tracked_though_ignored, root, left_out), self._run_search(search)
            )
            if also and not answer.problem:
                answer = await self._run_search(replace(search, also=also))
        else:
            answer = await self._run_search(search)
        if answer.problem:
            return ToolResult.error(
                f"The pattern cannot be read: {answer.problem}", "Escape ( ) [ ] { } . * + ? | ^ $ to mean them."
            )
        try:
            files = _FileFilter.from_call(call, root, left_out)
        except re.error as problem:
            return ToolResult.error(f"The glob cannot be read: {problem}.")
        lines = _lines(answer.output, call, files, place.cwd)
        missing = "" if lines or root.is_file() else await asyncio.to_thread(_describe_left_out, root, left_out)
        return _search_result(call, lines, answer, left_out.note(str(root)), missing)

    async def _run_search(self, search: Search) -> _SearchOutput:
        engine = find_ripgrep() if self._engine is None else self._engine
        if engine:
            path = safe_path(os.environ.get("PATH", os.defpath))
            answer = await _run(_ripgrep_argv(engine, search), {"PATH": path})
            if not answer.problem:
                return answer
        # The search in Python reads patterns that ripgrep does not: lookaround, back references, a literal brace.
        argv = own_python_argv("teamwright.tools.files.python_search", "-B", "-X", "utf8")
        return await _run((*argv, search.as_argument()), {})


def find_ripgrep() -> str:
    """Return the path of ripgrep, or an empty text."""
    return find_program("rg")


class _FileFilter(Struct, frozen=True):
    """The filter for results: paths below `start` that match all of `match` and none of `refuse`.

    Files that must not be read were not searched; `excluded` also removes them from the output of either engine.
    """

    start: int
    match: tuple[re.Pattern[str], ...]
    refuse: tuple[re.Pattern[str], ...]
    excluded: re.Pattern[str] | None = None

    @classmethod
    def from_call(cls, call: GrepInput, root: Path, left_out: ExcludedPaths) -> _FileFilter:
        if root.is_file():
            return cls(0, (), ())
        patterns = split_patterns(call.glob or "")
        match = (
            [compile_globs(with_literal_brackets(inclusions))]
            if (inclusions := [one for one in patterns if one[0] != "!"])
            else []
        )
        if call.type:
            match.append(compile_globs(_type_patterns(call.type)))
        refuse = [compile_globs([one[1:]]) for one in patterns if one[0] == "!"]
        but = compile_patterns(left_out.patterns) if left_out.patterns else None
        return cls(len(str(root).rstrip("/")) + 1, tuple(match), tuple(refuse), but)

    def __contains__(self, path: str) -> bool:
        if self.excluded is not None and self.excluded.fullmatch(path, self.start):
            return False
        return all(one.match(path, self.start) for one in self.match) and not any(
            one.match(path, self.start) for one in self.refuse
        )


def _type_patterns(kind: str) -> list[str]:
    return [f"*.{extension}" for extension in type_extensions(kind) or ()]


def _search(call: GrepInput, root: Path, left_out: ExcludedPaths) -> Search:
    # Only name patterns narrow the search itself, because both engines read them alike. Others filter the output.
    patterns = [one for one in split_patterns(call.glob or "") if one[0] != "!"]
    names = (
        with_literal_brackets(patterns)
        if patterns and not any("/" in one for one in patterns)
        else _type_patterns(call.type)
        if call.type
        else []
    )
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
    flags += [f"--iglob=!{_anchor_pattern(search.root, segments)}" for segments in search.but]
    return (engine, *flags, "-e", search.pattern, "--", search.root, *search.also)


def _tracked_though_ignored(root: Path, left_out: ExcludedPaths) -> tuple[str, ...]:
    """Return the paths that git tracks although it ignores them, and that may be read; the first ones of very many."""
    but = compile_patterns(left_out.patterns) if left_out.patterns else None
    start = len(str(root).rstrip("/")) + 1
    found: list[str] = []
    room = _MAX_ALSO
    for path in tracked_though_ignored(root):
        room -= len(os.fsencode(path)) + 1
        if room < 0:
            break
        if not os.path.islink(path) and os.path.exists(path) and (but is None or not is_excluded(but, path, start)):
            found.append(path)
    return tuple(found)


def _describe_left_out(root: Path, left_out: ExcludedPaths) -> str:
    """Return a sentence about what a search without a result left out."""
    seen = LeftOut()
    but = compile_patterns(left_out.patterns) if left_out.patterns else None
    try:
        for _ in walk(root, deadline=time.monotonic() + _LOOK_S, excluded=but, left_out=seen):
            pass
    except WalkTimeout:
        pass
    return seen.describe(root)


def _anchor_pattern(root: str, segments: Segments) -> str:
    """Return a pattern relative to the root, in ripgrep's syntax."""
    begin = _GLOB_SPECIAL.sub(r"\\\g<0>", root.rstrip("/")).replace("*", r"\*").replace("?", r"\?")
    rest = (part if part == "**" else re.sub(r"\*+", "*", _GLOB_SPECIAL.sub(r"\\\g<0>", part)) for part in segments)
    return "/".join((begin, *rest))


async def _run(argv: Sequence[str], env: dict[str, str]) -> _SearchOutput:
    output, errors = ProcessOutput(_MAX_OUTPUT), ProcessOutput(2_000)
    outcome = await run_command(
        ProcessCommand(argv, Path("/"), env, is_for_agent=False), output, errors, timeout_s=TIMEOUT_S, grace_s=0.5
    )
    if outcome.exit_code == 2 and not outcome.timed_out and outcome.errors.strip():
        return _SearchOutput(problem=outcome.errors.replace("regex parse error:", "").strip()[-300:])
    return _SearchOutput(output.head(), not output.is_cut, outcome.timed_out)


def _lines(output: str, call: GrepInput, files: _FileFilter, cwd: Path) -> list[str]:
    """Return the lines of the output for files that pass the filter, with paths for display."""
    if call.output_mode == "files_with_matches":
        found = [path for path in output.split("\0") if path.strip() and path in files]
        return [relative_path(path, cwd) for path in sorted(found, key=_newest_first)]
    lines: list[str] = []
    for ended in output.split("\n"):
        line = ended.removesuffix("\r")  # with its CR LF option ripgrep ends its own lines that way too
        path, apart, rest = line.partition("\0")
        if not apart:
            if line == "--" and lines and lines[-1] != "--":
                lines.append(line)
        elif path in files:
            lines.append(_line(relative_path(path, cwd), rest, call))
    return lines[:-1] if lines and lines[-1] == "--" else lines


def _line(path: str, rest: str, call: GrepInput) -> str:
    if call.output_mode == "count":
        return f"{path}:{rest}"
    found = re.match(r"(\d+)([:-])", rest)
    if found is None:  # ripgrep's message about a binary file
        return f"{path}: {rest}"
    text = rest[found.end() :]
    cut = text if len(text) <= MAX_LINE else f"{text[:MAX_LINE]} [… {len(text) - MAX_LINE:,} characters more]"
    number = f"{found.group(1)}{found.group(2)}" if call.line_numbers else ""
    return f"{path}{found.group(2)}{number}{cut}"


def _newest_first(path: str) -> tuple[float, str]:
    try:
        return -os.stat(path).st_mtime, path
    except OSError:
        return 0.0, path


def _search_result(call: GrepInput, lines: list[str], answer: _SearchOutput, left_out: str, missing: str) -> ToolResult:
    limit = call.head_limit or DEFAULT_LINES
    output_lines: list[str] = []
    room = MAX_TEXT
    for line in lines[:limit]:
        room -= len(line) + 1
        if room < 0:
            break
        output_lines.append(line)
    notes: list[str] = []
    if len(output_lines) < len(lines):
        notes.append(f"[{len(output_lines)} of {len(lines)} lines: narrow the search, or give head_limit]")
    if answer.timed_out:
        notes.append(f"[the search was ended after {TIMEOUT_S:g} s: narrow it by path, glob or type]")
    elif not answer.is_complete:
        notes.append("[there was more than can be read: narrow the search]")
    if left_out:
        notes.append(left_out)
    found = sum(line != "--" for line in lines)
    if not found:
        notes.insert(0, f"Nothing found in text files. {missing}".rstrip())
    thing = "line" if call.output_mode == "content" else "file"
    return ToolResult(
        "\n".join([*output_lines, *notes]), brief=f"{found} {thing}{'' if found == 1 else 's'}", facts={"count": found}
    )


FILE_TYPES: dict[str, tuple[str, ...]] = {
    "c": ("c", "h"),
    "cpp": ("cpp", "cc", "cxx", "hpp", "hh", "hxx", "h", "inl"),
    "cs": ("cs",),
    "css": ("css", "scss", "sass", "less"),
    "dart": ("dart",),
    "elixir": ("ex", "exs", "eex", "heex"),
    "go": ("go",),
    "haskell": ("hs", "lhs"),
    "html": ("html", "htm"),
    "java": ("java",),
    "js": ("js", "jsx", "mjs", "cjs", "vue"),
    "json": ("json", "jsonl"),
    "kotlin": ("kt", "kts"),
    "lua": ("lua",),
    "md": ("md", "markdown", "mdx"),
    "php": ("php",),
    "proto": ("proto",),
    "py": ("py", "pyi"),
    "r": ("r", "R", "Rmd"),
    "ruby": ("rb", "gemspec", "rake"),
    "rust": ("rs",),
    "scala": ("scala", "sbt"),
    "sh": ("sh", "bash", "zsh", "fish"),
    "sql": ("sql",),
    "svelte": ("svelte",),
    "swift": ("swift",),
    "toml": ("toml",),
    "ts": ("ts", "tsx", "mts", "cts"),
    "txt": ("txt",),
    "xml": ("xml",),
    "yaml": ("yaml", "yml"),
    "zig": ("zig",),
}
"""Type to extensions, under the names that ripgrep users know."""

TYPE_ALIASES = {
    "python": "py",
    "javascript": "js",
    "typescript": "ts",
    "rs": "rust",
    "rb": "ruby",
    "markdown": "md",
    "yml": "yaml",
}
"""Other names of types that models use."""


def split_patterns(text: str) -> list[str]:
    """Split a text into patterns, at blanks, or at commas outside of braces."""
    return [part for part in re.split(r"\s+|,(?![^{]*\})", text.strip()) if part]


def type_extensions(kind: str) -> tuple[str, ...] | None:
    """Return the extensions of a file type, or None for an unknown one."""
    name = kind.strip().lstrip(".").lower()
    return FILE_TYPES.get(TYPE_ALIASES.get(name, name))
