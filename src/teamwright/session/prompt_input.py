"""The user's prompt as blocks: from an argument, from stdin or from a file, with attached files.

Only typed text is searched for `@path`: text from a pipe is data, and attaches nothing. Also parses slash commands,
`/name arguments`. Depends on files and blocks.
"""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

from teamwright.protocol.errors import StorageError, UsageError
from teamwright.protocol.images import MAX_IMAGE_BYTES, image_problem, image_type
from teamwright.protocol.messages import Block, image_block, text_block
from teamwright.protocol.runtime_tags import ATTACHED_FILE

LONGEST_FILE = 256_000
"""Maximum bytes of an attached text file; agents read longer ones themselves."""

BUILT_IN_PROMPTS = {
    "/init": "Read this repository and write AGENTS.md for agents that work in it, or improve the file that exists: "
    "how to build, to test and to check the style, the structure, and the rules that are not obvious from the code. "
    "At most 60 lines. Only facts that you have checked.",
    "/review": "Review the changes of this repository that are not committed. Look for errors first, then for what is "
    "hard to understand. Name file and line of each finding, most serious first. Change nothing.",
}
"""Commands that are prompts to the lead. The text after the command is appended."""

_AT = re.compile(r'(?<![\w@/.])@(?:"([^"\n]+)"|([^\s"\'`<>|]+))')
_TAIL = ".,;:!?)]}…"


def read_prompt(text: str | None, stdin_text: str | None, cwd: Path) -> list[Block]:
    """Return the blocks of a prompt: text of stdin, then the typed text, then the files that it attaches.

    A typed prompt that is only `@FILE` is read from that file. Raises UsageError for an empty prompt, for a missing
    `@FILE`, and for a file that cannot be attached; StorageError when it cannot be read.
    """
    typed, attached = _typed((text or "").strip(), cwd)
    parts = [part for part in ((stdin_text or "").strip("\n"), typed) if part.strip()]
    if not parts:
        raise UsageError(
            "usage",
            "the prompt is empty",
            looked_at=[("looked at", "the argument and stdin")],
            do=['teamwright -p "…"', "teamwright -p @FILE", "echo … | teamwright -p"],
            note="nothing was started",
        )
    return [text_block("\n\n".join(parts)), *(read_attachment(path, cwd) for path in attached)]


def missing_mentions(text: str, cwd: Path) -> list[str]:
    """Return the names after `@` in a typed prompt that name no file and no directory, without punctuation."""
    names = {(match[1] or match[2]).rstrip(_TAIL): None for match in _AT.finditer(text)}
    return [name for name in names if name and not _is_there(_path(name, cwd))]


def read_attachment(path: Path, cwd: Path) -> Block:
    """Return a file as a block: an image, or a text between tags that name it. Raises UsageError, StorageError."""
    display_path = str(path.relative_to(cwd)) if path.is_relative_to(cwd) else str(path)
    raw = _read(path, max(LONGEST_FILE, MAX_IMAGE_BYTES))
    kind = image_type(raw)
    if kind is not None:
        if why := image_problem(raw):
            raise _not_text_error(display_path, f"it {why}")
        return image_block(kind, base64.b64encode(raw).decode("ascii"))
    if b"\0" in raw[:8192]:
        raise _not_text_error(display_path, "it is neither text nor an image")
    _refuse_longer(raw, LONGEST_FILE, display_path)
    return {"type": ATTACHED_FILE, "path": display_path, "text": raw.decode("utf-8", "replace").rstrip()}


def _typed(text: str, cwd: Path) -> tuple[str, list[Path]]:
    """Return the typed text and the files that it attaches; the text of the file when it is only `@FILE`."""
    if text.startswith("@") and "\n" not in text:
        whole = _path(text[1:].strip('"'), cwd)
        if _is_file(whole):
            raw = _read(whole, MAX_IMAGE_BYTES)
            if image_type(raw) is not None:
                return text, [whole]
            return _prompt_of(raw, text), []
        if not re.search(r"\s", text) and "://" not in text:  # `@server:uri` names a resource
            raise UsageError(
                "usage",
                f"the prompt is {text}, and there is no such file",
                looked_at=[("looked at", str(whole))],
                note="nothing was started",
            )
    found: dict[Path, None] = {}
    for match in _AT.finditer(text):
        path = _existing(match[1], match[2], cwd)
        if path is not None:
            found[path] = None
    return text, list(found)


def _prompt_of(raw: bytes, text: str) -> str:
    if b"\0" in raw[:8192]:
        raise _not_text_error(text[1:], "it is not text")
    return raw.decode("utf-8", "replace").removeprefix("\ufeff").strip()


def _existing(quoted: str | None, bare: str | None, cwd: Path) -> Path | None:
    """Return the named file, with or without the punctuation after it; None without a file."""
    name = quoted or bare or ""
    for candidate in (name, name.rstrip(_TAIL)):
        path = _path(candidate, cwd)
        if candidate and _is_file(path):
            return path
    return None


def _path(name: str, cwd: Path) -> Path:
    return cwd / os.path.expanduser(name)


def _is_file(path: Path) -> bool:
    """Return True for a readable path of a file; text that only looks like a path is no error."""
    try:
        return path.is_file()
    except OSError:
        return False


def _is_there(path: Path) -> bool:
    try:
        return os.path.lexists(path)
    except ValueError:
        return False


def _read(path: Path, most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(most + 1)
    except OSError as problem:
        raise StorageError(
            "io-failed", f"{path} cannot be read: {problem.strerror}", note="nothing was started"
        ) from problem


def _refuse_longer(raw: bytes, most: int, display_path: str) -> None:
    if len(raw) > most:
        raise _not_text_error(display_path, f"it is larger than {most // 1000:,} kB")


def _not_text_error(display_path: str, why: str) -> UsageError:
    return UsageError(
        "usage",
        f"@{display_path} cannot be attached: {why}",
        do=["name the path without @, and the agents read what they need of it"],
        note="nothing was started",
    )


_SLASH_COMMAND = re.compile(r"/([A-Za-z0-9][A-Za-z0-9_.:-]*)(?:\s+(.*))?", re.DOTALL)


def parse_slash_command(text: str) -> tuple[str, str] | None:
    """Return the name and the arguments of a slash command; None for other texts, such as a path."""
    found = _SLASH_COMMAND.fullmatch(text.strip())
    return (found[1], (found[2] or "").strip()) if found is not None else None
