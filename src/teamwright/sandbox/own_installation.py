"""The files of the running Teamwright that commands could change: they run later without a sandbox.

Teamwright may be installed in the environment of a project, or run from a cache of uv (`uvx`). uv also installs
packages as hard links to its cache, so a change there changes the installed file. A source tree is not protected.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import cache

import teamwright
from teamwright.sandbox.mount_points import is_same_file
from teamwright.sandbox.policy import is_inside

_ARCHIVES = "archive-v0"
"""The directory of uv's cache with unpacked packages."""

OTHER_UV_CACHE = "teamwright-uv"
"""The cache of uv for commands, where the person's contains Teamwright."""


def own_environment(changeable: Iterable[str]) -> list[str]:
    """Return the virtual environment of Teamwright if it is inside of a directory that commands can change."""
    prefix = os.path.realpath(sys.prefix)
    is_installed = sys.prefix != sys.base_prefix and is_inside(_packages(), prefix)
    return [prefix] if is_installed and any(prefix != top and is_inside(prefix, top) for top in changeable) else []


def own_uv_caches(caches: Iterable[str]) -> list[str]:
    """Return the caches of uv that contain files of Teamwright's environment."""
    places = [path for top in caches for path in (top, f"{top}/uv") if os.path.isdir(f"{path}/{_ARCHIVES}")]
    return [path for path in places if is_inside(_packages(), path) or contains_links(path, _packages())]


@cache
def contains_links(uv_cache: str, packages: str) -> bool:
    """Return True when installed packages are hard links to this cache of uv. It is searched once."""
    try:
        installed = {name for name in os.listdir(packages) if name.endswith(".dist-info")}
        archives = [entry.path for entry in os.scandir(f"{uv_cache}/{_ARCHIVES}")]
    except OSError:
        return False
    return any(
        is_same_file(f"{one}/{name}/METADATA", f"{packages}/{name}/METADATA")
        for one in archives
        for name in installed.intersection(_names(one))
    )


def _packages() -> str:
    return os.path.dirname(os.path.dirname(os.path.realpath(teamwright.__file__)))


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []
