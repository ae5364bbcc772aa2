"""The file of a bug report: a zip that only its owner may read, and that never replaces another file."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from teamwright.protocol.errors import StorageError, UsageError
from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home, make_private

LEFT_OUT = (
    "prompts, answers, tool inputs and outputs, messages, tasks, files, "
    "the words of errors, keys and tokens, variables, texts of settings"
)
"""Content that no bug report has, in words."""


@dataclass(frozen=True, slots=True)
class ReportPart:
    """One file of a bug report; `about` describes it in a line."""

    name: str
    about: str
    text: str

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.text.encode("utf-8", "replace"))


def report_path(home: Home, given: Path | None) -> Path:
    """Return the path of the bug report: the given one, else a new one beside the crash files."""
    return given if given is not None else home.debug / f"report-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.zip"


def save_bug_report(path: Path, parts: Sequence[ReportPart], *, own: bool) -> None:
    """Write the bug report with mode 0600. `own`: create its directory, which is Teamwright's.

    Raises UsageError for an existing file, StorageError.
    """
    contents = "".join(f"{part.name}: {part.about}\n" for part in parts) + f"\nLeft out: {LEFT_OUT}.\n"
    try:
        if own:
            make_private(path.parent)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise UsageError(
            "usage", f"{path} is there already", do=["name another file"], note="nothing was written"
        ) from None
    except OSError as problem:
        raise StorageError("io-failed", f"{path} cannot be written: {problem.strerror}") from problem
    with os.fdopen(fd, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in (ReportPart("README.txt", "", contents), *parts):
            entry = zipfile.ZipInfo(part.name, time.localtime()[:6])
            entry.external_attr = 0o600 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, part.text.encode("utf-8", "replace"))
