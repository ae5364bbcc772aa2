"""Assets of instruction files: those of every agent here, and those of subdirectories.

Hidden directories and directories of installed packages are not searched.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from teamwright.agent.instructions import (
    FILE_NAMES,
    LOCAL_FILE_NAME,
    Instructions,
    NestedInstructions,
    read_instructions,
)
from teamwright.config.output_styles import output_styles, style_text
from teamwright.skills.scoped_rules import FOLDER
from teamwright.views.assets import Asset, CheckSubject

GROUP = "instructions"

MOST = 20_000
"""Maximum number of directories that are searched for instructions."""

_PACKAGES = frozenset({"node_modules", "__pycache__", "site-packages", "vendor", "target", "dist", "build"})
_DEEPER = "loaded when its directory is touched"


def instruction_assets(subject: CheckSubject) -> Iterator[Asset]:
    """Yield all instruction files, in the order in which a run reads them."""
    cwd, root, ours = subject.cwd, subject.root, subject.asked.home.own
    begun = read_instructions(cwd, root, ours, subject.compat, subject.trust.trusted)
    yield from _assets(begun, "")
    deeper = NestedInstructions(cwd, root, begun.found, subject.compat, subject.trust.trusted)
    known = {asset.path for asset in (*begun.found, *begun.skipped, *begun.scoped)} | set(begun.import_only)
    places, all_seen = _below(root)
    for place in places:
        deeper.text_for(place / "file")
    yield from (asset for asset in _assets(deeper.result, _DEEPER) if Path(asset.file) not in known)
    for place in places:
        local = place / LOCAL_FILE_NAME
        if subject.compat and local not in known and os.path.isfile(local) and not cwd.is_relative_to(place):
            yield Asset(GROUP, local.name, "ignored", str(local), 0, "only read from the top to where a run begins")
    yield from _styles(subject)
    if not all_seen:
        yield Asset(GROUP, "deeper directories", "ignored", str(root), 0, f"only {MOST:,} were searched")


def _styles(subject: CheckSubject) -> Iterator[Asset]:
    """Yield the output styles: the one in use, and those that the setting does not name."""
    styles = output_styles(subject.asked.home, subject.root, compat=subject.compat)
    chosen, _ = style_text(subject.survey.settings.output_style, styles)
    used = next((style for style in styles if chosen and style.text == chosen), None)
    for style in styles:
        if style is used:
            yield Asset(GROUP, style.name, "used", str(style.file), 0, "the output style of the lead")
        else:
            yield Asset(GROUP, style.name, "ignored", str(style.file), 0, "the setting outputStyle does not name it")


def _assets(read: Instructions, why: str) -> Iterator[Asset]:
    for one in read.found:
        yield Asset(GROUP, one.path.name, "used", str(one.path), 0, one.warning.removeprefix(f"{one.path} ") or why)
    for path in read.import_only:
        yield Asset(GROUP, path.name, "used", str(path), 0, "it only imports others")
    for one in read.scoped:
        yield Asset(GROUP, one.path.name, "used", str(one.path), 0, f"loaded when an agent touches {one.about}")
    for one in read.skipped:
        yield Asset(GROUP, one.path.name, one.verdict, str(one.path), one.line, one.reason)


def _below(root: Path) -> tuple[list[Path], bool]:
    """Return the subdirectories with instructions, top first, and True when all were searched."""
    found: list[Path] = []
    for count, (directory, below, files) in enumerate(os.walk(root)):
        if count >= MOST:
            return found, False
        if FOLDER in below or any(name in files for name in (*FILE_NAMES, LOCAL_FILE_NAME)):
            found.append(Path(directory))
        below[:] = sorted(_own(below))
    return found, True


def _own(names: Iterable[str]) -> list[str]:
    return [name for name in names if not name.startswith(".") and name not in _PACKAGES]
