"""Our own settings files as targets of writing: their paths, protection against links, and whole-file writes.

The checkout's own file is excluded from git through `.git/info/exclude`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from teamwright.config.settings.settings_files import SettingsOrigin
from teamwright.git.repository import discover
from teamwright.protocol.errors import TeamRefused
from teamwright.storage.atomic_write import storage_error, write_atomic
from teamwright.storage.paths import Home
from teamwright.storage.read_bounded import read_plain


class SettingsFiles(Struct, frozen=True):
    """The settings directories: the user's under this home, a repository's under `root`."""

    home: Home
    root: Path

    def file_of(self, destination: str) -> tuple[Path, SettingsOrigin]:
        """Return the file of a permanent destination, and its origin."""
        ours = self.root / ".teamwright"
        if destination == "userSettings":
            return self.home.settings, SettingsOrigin.USER
        if destination == "projectSettings":
            return ours / "settings.json", SettingsOrigin.SHARED
        return ours / "settings.local.json", SettingsOrigin.LOCAL


def write_settings(root: Path, path: Path, origin: SettingsOrigin, content: Mapping[str, Any]) -> None:
    """Write a file whole, as JSON with two spaces. Raises StorageError; the file is unchanged then."""
    mode = _mode_of(path)
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_atomic(path, text.encode("utf-8", "surrogatepass"))
    if origin is SettingsOrigin.SHARED:
        with suppress(OSError):
            os.chmod(path, mode)  # everyone who works on the repository shares the file
    if origin is SettingsOrigin.LOCAL:
        exclude_from_git(root, path)


def exclude_from_git(root: Path, path: Path) -> None:
    """Exclude the file from git, without a change to any tracked file. Raises StorageError."""
    found = discover(root)
    repository = found.repository
    if repository is None or found.doubts or not path.is_relative_to(repository.tree):
        return
    line = os.fsencode(f"/{path.relative_to(repository.tree)}")
    listed = repository.common / "info" / "exclude"
    try:
        before = read_plain(listed) if os.path.lexists(listed) else b""
        if line in before.split(b"\n"):
            return
        listed.parent.mkdir(exist_ok=True)
        with listed.open("ab") as file:
            file.write((b"" if before.endswith(b"\n") or not before else b"\n") + line + b"\n")
    except OSError as problem:
        raise storage_error(problem, listed) from problem


def require_inside(root: Path, path: Path) -> None:
    """Raise TeamRefused when a link of the repository would redirect the write to another directory."""
    place = path.parent
    if os.path.realpath(place) != os.path.join(os.path.realpath(root), place.name) or path.is_symlink():
        what = f"{place} leads out of the repository"
        raise TeamRefused(
            "team-refused", what, looked_at=[("really", os.path.realpath(path))], note="nothing was saved"
        )


def _mode_of(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_mode & 0o777
    return 0o644
