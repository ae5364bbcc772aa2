"""The start of every command, before a session is known: check the platform, choose a database, report a crash.

It loads no settings and no agents, so commands start fast, and a crash is saved even when agents fail.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.protocol.errors import CannotStart, StorageError, TeamwrightError
from teamwright.protocol.secret_texts import MIN_FRAGMENT, is_secret_name, mask_tokens, mask_values
from teamwright.storage.paths import Home, find_home, make_private

if TYPE_CHECKING:
    from teamwright.database.address import DatabaseAddress


PLATFORMS = "Linux, macOS, Windows through WSL 2"


def platform_name(kind: str | None = None, release: str | None = None) -> str:
    """Return the platform for people: `Linux 6.8`, `macOS 15.1`, `WSL 2 (Linux 5.15…)`."""
    kind = sys.platform if kind is None else kind
    release = platform.release() if release is None else release
    if kind == "darwin":
        return f"macOS {platform.mac_ver()[0] or release}"
    if kind != "linux":
        return kind
    generation = _wsl(release)
    return f"WSL {generation} (Linux {release})" if generation else f"Linux {release}"


def require_platform(kind: str | None = None, release: str | None = None) -> None:
    """Raise CannotStart (`platform`) on systems other than Linux, macOS and WSL 2."""
    kind = sys.platform if kind is None else kind
    release = platform.release() if release is None else release
    if kind == "darwin" or (kind == "linux" and _wsl(release) != 1):
        return
    way = "wsl --set-version DISTRIBUTION 2" if kind == "linux" else "on Windows: wsl --install, then install it there"
    raise CannotStart(
        "platform",
        f"this platform is not supported: {platform_name(kind, release)}",
        looked_at=[("works on", PLATFORMS)],
        do=[way],
        note="nothing was started",
    )


def _wsl(release: str) -> int:
    """Return the generation of WSL that a kernel's release names; 0 for another Linux."""
    if "microsoft" not in release.lower():
        return 0
    return 2 if "wsl2" in release.lower() or "microsoft-standard" in release else 1


_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


def mask_secrets(text: str, env: Mapping[str, str]) -> str:
    """Return the text with secrets masked: values of variables named like secrets, and texts that look like keys."""
    return mask_values_of(env)(text)


def mask_values_of(env: Mapping[str, str]) -> Callable[[str], str]:
    """Return a function that masks the secrets of this environment in many texts, as `mask_secrets`."""
    values = {
        value
        for name, value in env.items()
        if len(value) >= MIN_FRAGMENT and (_SECRET_NAME.search(name) or is_secret_name(name))
    }
    return lambda text: mask_tokens(mask_values(text, values))


def crash(problem: BaseException, argv: Sequence[str], home: str | None = None) -> TeamwrightError:
    """Save an internal error in a file under `<home>/debug`, 0600, and return the error that names it.

    The file contains the traceback, versions and the flags; no prompt, no file's content, no secret.
    """
    import traceback

    import teamwright

    trace = "".join(traceback.format_exception(problem))
    flags = [arg.partition("=")[0] for arg in argv if arg.startswith("-")]
    text = mask_secrets(
        f"teamwright {teamwright.__version__}\npython {sys.version.split()[0]} at {sys.executable}\n"
        f"platform {platform_name()}\nflags {' '.join(flags) or 'none'}\n\n{trace}",
        os.environ,
    )
    where = _last_of_ours(problem)
    is_saved, place = _keep(text, home)
    what = mask_secrets(f"a bug in Teamwright: {type(problem).__name__}: {problem}"[:300], os.environ)
    return TeamwrightError(
        "bug",
        " ".join(what.split()),
        looked_at=[("where", where), ("crash file" if is_saved else "no file", place)],
        do=["report it with the crash file; read it first", "teamwright --debug … shows where it happened"],
    )


def _keep(text: str, home: str | None) -> tuple[bool, str]:
    """Save the text; return True with the path, else False with the reason."""
    import tempfile

    name = f"crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
    reason = ""
    for place in (lambda: find_home(home).debug, lambda: Path(tempfile.gettempdir())):
        directory = None
        try:
            directory = place()
            make_private(directory)
            path = directory / name
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
        except (OSError, StorageError, CannotStart) as problem:
            reason = f"could not be written to {directory}: {problem}" if directory is not None else str(problem)
        else:
            return True, str(path)
    return False, reason


def _last_of_ours(problem: BaseException) -> str:
    """Return file and line of the last frame in this package."""
    import traceback

    frames = traceback.extract_tb(problem.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}teamwright{os.sep}" in frame.filename] or list(frames)
    if not ours:
        return "unknown"
    last = ours[-1]
    short = last.filename.rpartition(f"{os.sep}teamwright{os.sep}")[2]
    return f"{short}:{last.lineno} in {last.name}"


DATABASE_VARIABLE = "TEAMWRIGHT_DATABASE"
"""The address of a team's database for a process, with precedence over the setting `database`."""


def find_database(flag: str | None, home: Home, env: Mapping[str, str] | None = None) -> DatabaseAddress | None:
    """Return the address of a team's database, from the flag, the environment or the user's own settings file.

    None for a team on files, which `none` as the value of the flag keeps there. A repository's settings never choose a
    database. Raises UsageError for an address that cannot be used.
    """
    text: object = flag or (os.environ if env is None else env).get(DATABASE_VARIABLE, "")
    if not text:
        from teamwright.config.settings.files import user_setting  # the platform check does not pay for this import

        text = user_setting(home, "database")
    if not isinstance(text, str) or not text or text == "none":
        return None
    from teamwright.database.address import parse_address

    return parse_address(text)
