"""Output styles: Markdown files with a text for the lead's prompt, of which the setting `outputStyle` chooses one.

A person's own styles come first, so that a repository cannot replace them. Trust in a repository's `outputStyle` covers
the text of its style. Format: docs/reference/formats/output-styles.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from teamwright.protocol.ids import nearest
from teamwright.skills.skill_definition import parse_head
from teamwright.storage.files import read_plain
from teamwright.storage.paths import Home

DIRECTORY = "output-styles"

NO_STYLE = "default"
"""The name of the usual prompt without a style."""

MAX_BYTES = 64_000
MAX_FILES = 100
"""The most bytes of a style, and the most files of a directory that are read."""


class OutputStyle(Struct, frozen=True):
    """A style: its name, its text and its file."""

    name: str
    text: str
    file: Path


def output_styles(home: Home, root: Path, *, compat: bool) -> list[OutputStyle]:
    """Return all styles here, a person's own first. Files that cannot be read, and links out of the repository, are
    left out.
    """
    users = Path(os.path.expanduser("~"))
    own = [home.own / DIRECTORY, *([users / ".claude" / DIRECTORY] if compat else [])]
    known = {os.path.realpath(place) for place in own}
    found = [style for place in own for style in _read(place, None)]
    theirs = repository_styles(root, compat=compat)
    return [*found, *(style for style in theirs if os.path.realpath(style.file.parent) not in known)]


def repository_styles(root: Path, *, compat: bool) -> list[OutputStyle]:
    """Return the styles of a repository. Files that cannot be read, and links out of it, are left out."""
    places = [root / ".teamwright" / DIRECTORY, *([root / ".claude" / DIRECTORY] if compat else [])]
    return [style for place in places for style in _read(place, root)]


def style_text(name: str, styles: list[OutputStyle]) -> tuple[str, str]:
    """Return the text of the style of this name, in any case; and what is wrong when there is none."""
    if name.strip().lower() in {"", NO_STYLE}:
        return "", ""
    found = next((style for style in styles if style.name.lower() == name.strip().lower()), None)
    if found is not None:
        return found.text, ""
    near = nearest(name, [style.name for style in styles])
    return "", f"there is no output style {name[:60]!r}" + (f"; did you mean {near}?" if near else "")


def _read(place: Path, within: Path | None) -> Iterator[OutputStyle]:
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(".md"))[:MAX_FILES]
    except OSError:
        return
    for name in names:
        file = place / name
        if within is not None and not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(within)):
            continue
        try:
            head = parse_head(read_plain(file, MAX_BYTES).decode("utf-8-sig"))
        except (OSError, UnicodeDecodeError):
            continue
        title = head.values.get("name")
        if head.body.strip():
            yield OutputStyle(
                title.strip() if isinstance(title, str) and title.strip() else file.stem, head.body.strip(), file
            )
