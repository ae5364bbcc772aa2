"""The Edit tool: replaces one exact piece of text in a file."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from pydantic import Field

from teamwright.agent.tool import ToolResult
from teamwright.agent.tool_input import ToolInput
from teamwright.tools.files.file_change import (
    FileChangeTool,
    FileText,
    NewContent,
    decode,
    is_binary,
    no_file_error,
    replace_surrogates,
)

_LINE_NUMBER = re.compile(r"^ *\d+\t")
_MAX_SEARCHED_LINES = 20_000
_MAX_COMPARED = 2_000
"""Characters of a line that are shown, and of the longest one in which the differing character is searched: the time
grows with the square."""


class EditInput(ToolInput):
    """Parameters of Edit."""

    file_path: str = Field(description="Path of the file.")
    old_string: str = Field(description="Exact text to replace.")
    new_string: str = Field(description="Replacement.")
    replace_all: bool = False


class Edit(FileChangeTool[EditInput]):
    """The Edit tool. All other bytes of the file are kept."""

    name = "Edit"
    input_type = EditInput

    def target_path(self, call: EditInput) -> str:
        """Return the path; see FileChangeTool."""
        return call.file_path

    def new_content(self, path: Path, call: EditInput, before: bytes | None) -> NewContent | ToolResult:
        """Return the new content; see FileChangeTool."""
        if call.old_string == call.new_string:
            return ToolResult.error("old_string and new_string are the same.", "Nothing was written.")
        if before is None:
            if call.old_string:
                return no_file_error(path)
            return _encode_change(path, FileText(""), call.new_string, "created")
        text = decode(before)
        if is_binary(before) or text.encode() != before:
            return ToolResult.error(f"{path} is not a text file; nothing was written.")
        if not call.old_string:
            return ToolResult.error(
                "old_string is empty, and the file exists.", "Give the text to replace, or use Write."
            )
        old, new = _match_file_form(text.text, call.old_string, call.new_string)
        count = text.text.count(old)
        if count == 0:
            return _not_found_error(path, text.text, call.old_string)
        if count > 1 and not call.replace_all:
            lines: list[int] = []
            at = text.text.find(old)
            while at >= 0:
                lines.append(text.text.count("\n", 0, at) + 1)
                at = text.text.find(old, at + len(old))
            where = ", ".join(map(str, lines[:10])) + (", …" if len(lines) > 10 else "")
            return ToolResult.error(
                f"old_string is there {count} times (lines {where}); nothing was written.",
                "Give more of the text around it, or set replace_all.",
            )
        line = text.text.count("\n", 0, text.text.find(old)) + 1
        where = f"{count} places" if count > 1 else f"line {line}"
        return _encode_change(path, text, text.text.replace(old, new), where)


def _encode_change(path: Path, text: FileText, after: str, position: str) -> NewContent | ToolResult:
    try:
        return NewContent(text.with_text(after).encode(), f"Changed {path}, {position}")
    except UnicodeEncodeError:
        return ToolResult.error("new_string holds characters that cannot be written (lone surrogates).")


def _match_file_form(text: str, old: str, new: str) -> tuple[str, str]:
    """Return both strings with the file's line ends or without line numbers, if only that form of `old` occurs."""
    if old in text:
        return old, new
    lines = old.split("\n")
    bare = "\n".join(_LINE_NUMBER.sub("", line) for line in lines)
    numbered = all(_LINE_NUMBER.match(line) for line in lines if line)
    pairs = [
        (old.replace("\r\n", "\n"), new.replace("\r\n", "\n")),
        (old.replace("\n", "\r\n"), new.replace("\n", "\r\n")),
    ]
    if numbered:
        pairs.append((bare, "\n".join(_LINE_NUMBER.sub("", line) for line in new.split("\n"))))
    return next(((one, other) for one, other in pairs if one in text), (old, new))


def _not_found_error(path: Path, text: str, old: str) -> ToolResult:
    problem = f"old_string is not in {path}; nothing was written."
    lines = text.split("\n")
    old_lines = old.strip("\n").split("\n")
    at = _nearest_line(lines, old_lines)
    if at is None:
        return ToolResult.error(problem, "Read the file again and copy the text exactly.")
    if difference := _different_character(lines[at : at + len(old_lines)], old_lines):
        problem += f"\n{difference}"
    nearest = lines[at : at + min(len(old_lines), 12)]
    cut = [line if len(line) <= _MAX_COMPARED else f"{line[:_MAX_COMPARED]}…" for line in nearest]
    there = "\n".join(f"{at + number:6}\t{line}" for number, line in enumerate(cut, 1))
    return ToolResult.error(
        f"{problem}\nThe nearest text is this; look at blanks, tabs and every character:\n{replace_surrogates(there)}",
        "Copy it exactly, without the line numbers.",
    )


def _different_character(lines: list[str], old_lines: list[str]) -> str:
    """Return a sentence about the first character that differs although it looks alike; empty when none does."""
    for number, (there, given) in enumerate(zip(lines, (line.strip() for line in old_lines), strict=False), 1):
        plain = _plain_form(given)
        if given in there or len(there) > _MAX_COMPARED or plain not in _plain_form(there):
            continue
        # The last place, because one before it begins with blanks that the plain form does not have.
        begins = (at for at in reversed(range(len(there))) if _plain_form(there[at:]).startswith(plain))
        pairs = zip(there[next(begins, 0) :], given, strict=False)
        one, other = next(((one, other) for one, other in pairs if one != other), ("", ""))
        if one:
            names = _character_name(other), _character_name(one)
            return f"Line {number} of old_string has {names[0]}; the file has {names[1]}, which looks alike."
    return ""


def _plain_form(line: str) -> str:
    """Return the line with look-alike characters replaced: blanks, quotes, dashes, and composed letters."""
    return " ".join(unicodedata.normalize("NFKC", line).translate(_LOOK_ALIKE).split())


def _character_name(character: str) -> str:
    return f"U+{ord(character):04X} ({unicodedata.name(character, 'a control character')})"


_LOOK_ALIKE = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u2032", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    }
)
"""Curly quotes and long dashes, with the plain character of each."""


def _nearest_line(lines: list[str], old_lines: list[str]) -> int | None:
    """Return the line where the intended text most likely begins."""
    key = max(old_lines, key=lambda line: len(line.strip()))
    offset = old_lines.index(key)
    stripped = [line.strip() for line in lines[:_MAX_SEARCHED_LINES]]
    if not key.strip():
        return None
    if key.strip() in stripped:
        return max(0, stripped.index(key.strip()) - offset)
    plain = _plain_form(key)
    alike = next((at for at, line in enumerate(stripped) if plain in _plain_form(line)), None)
    if alike is not None:
        return max(0, alike - offset)
    import difflib

    close = difflib.get_close_matches(key.strip(), set(stripped[:2_000]), n=1, cutoff=0.7)
    return max(0, stripped.index(close[0]) - offset) if close else None
