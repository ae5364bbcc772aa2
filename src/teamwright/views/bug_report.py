"""A bug report: versions, `doctor` findings, settings, file sizes, newest events and crash files, in a zip file.

Only the owner may read the file, and it never replaces another. No transcript, inbox, task, output or file of an agent
is opened; only names and sizes are listed. A text that no list of allowed keys names is replaced by its length, and
every text passes the redactor, which masks secrets and shortens the user's home.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import zipfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

import teamwright
from teamwright.config.settings.files import SettingsLayer, SettingsOrigin, read_layer
from teamwright.config.settings.merge import settings_places
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.settings.show import reads_compat_files
from teamwright.config.trust import repository_of
from teamwright.protocol.errors import StorageError, TeamwrightError, UsageError
from teamwright.protocol.secret_texts import mask_values
from teamwright.session.command_start import mask_secrets, platform_name
from teamwright.storage.event_log import LOG_NAME, newest_log
from teamwright.storage.paths import Home, make_private
from teamwright.views.doctor import DoctorSubject, find_problems


class ReportScope(Struct, frozen=True):
    """The scope of a bug report. `events` is the number of events of the newest session that it contains."""

    subject: DoctorSubject
    events: int = 200


class ReportPart(Struct, frozen=True):
    """One file of a bug report; `about` describes it in a line."""

    name: str
    about: str
    text: str

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.text.encode("utf-8", "replace"))


LEFT_OUT = (
    "prompts, answers, tool inputs and outputs, messages, tasks, files, "
    "the words of errors, keys and tokens, variables, texts of settings"
)
"""Content that no bug report has, in words."""


def collect_parts(scope: ReportScope) -> list[ReportPart]:
    """Return the parts of a bug report, redacted. Raises nothing: an unreadable part is replaced by the reason."""
    subject = scope.subject
    layers = list(_settings_layers(subject))
    raw = [layer.raw for _, layer in layers if isinstance(layer, SettingsLayer)]
    redactor = Redactor(subject.env, secrets_in(raw))
    parts = [
        ReportPart("versions.json", "versions, and the platform", _json(_versions(subject))),
        ReportPart("doctor.json", "what teamwright doctor finds", _json(_findings(subject))),
        ReportPart(
            "settings.json", "settings: numbers, switches, lengths of texts", _json(_settings(layers, redactor))
        ),
        ReportPart("files.json", "names and sizes of session files", _json(_file_sizes(subject.home))),
    ]
    events = _events(subject.home, subject.cwd, scope.events, redactor)
    if events:
        about = f"the last {len(events)} events: who, what, when; no words"
        parts.append(ReportPart(LOG_NAME, about, "".join(f"{line}\n" for line in events)))
    parts += _crashes(subject.home, redactor)
    return [ReportPart(part.name, part.about, redactor.text(part.text)) for part in parts]


def report_path(home: Home, path: Path | None) -> Path:
    """Return the path of the bug report: the given one, else a new one beside the crash files."""
    return path if path is not None else home.debug / f"report-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.zip"


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


# ── parts ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str) + "\n"


def _versions(subject: DoctorSubject) -> dict[str, Any]:
    try:
        required = requires("teamwright") or []
    except PackageNotFoundError:
        required = []
    named = {re.split(r"[;\[><=]", line, maxsplit=1)[0].strip() for line in required}
    packages: dict[str, str] = {}
    for name in sorted(named):
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "teamwright": teamwright.__version__,
        "python": sys.version.split()[0],
        "platform": platform_name(),
        "terminal": subject.env.get("TERM", ""),
        "packages": packages,
    }


QUOTING = frozenset({"settings", "servers"})
"""Sections of `doctor` findings that may quote a file of the user."""


def _findings(subject: DoctorSubject) -> list[dict[str, str]]:
    names = ("section", "label", "value", "verdict", "do")
    rows = [{name: str(getattr(finding, name)) for name in names} for finding in find_problems(subject)]
    for row in rows:
        if row["section"] in QUOTING and row["label"] != "file":
            row["value"], row["do"] = left_out(row["value"]), left_out(row["do"])  # may quote the content of a file
    return rows


def _settings_layers(subject: DoctorSubject) -> Iterator[tuple[str, SettingsLayer | str]]:
    """Yield each existing settings file, by its place, or the reason why it cannot be read."""
    flags = SettingFlags(settings_file=subject.settings_file)
    places = settings_places(subject.home, repository_of(subject.cwd), reads_compat_files(subject.home, flags))
    if isinstance(subject.settings_file, Path):
        places.append((subject.settings_file, SettingsOrigin.GIVEN))
    for path, origin in places:
        try:
            layer = read_layer(path, origin)
        except TeamwrightError as problem:
            yield origin.value, f"cannot be read ({problem.slug})"
        else:
            if layer is not None:
                yield origin.value, layer


def _settings(layers: list[tuple[str, SettingsLayer | str]], redactor: Redactor) -> dict[str, Any]:
    return {
        name: layer
        if isinstance(layer, str)
        else {key: redactor.setting(key, value) for key, value in layer.values.items()}
        for name, layer in layers
    }


FILES_MOST = 2_000
"""Maximum number of files whose size is listed."""


def _file_sizes(home: Home) -> list[dict[str, Any]]:
    """Return names and sizes below the directories of sessions. Session directories are numbered, because their
    names contain paths.
    """
    rows: list[dict[str, Any]] = []
    for number, project in enumerate(sorted(_directories_in(home.own / "projects")), 1):
        for path in sorted(project.rglob("*")):
            if len(rows) == FILES_MOST:
                return rows
            try:
                found = path.lstat()
            except OSError:
                continue
            if path.is_file() and not path.is_symlink():
                name = f"directory {number}/{path.relative_to(project)}"
                rows.append({"file": name, "bytes": found.st_size, "changed": int(found.st_mtime)})
    return rows


def _directories_in(directory: Path) -> list[Path]:
    try:
        return [path for path in directory.iterdir() if path.is_dir()]
    except OSError:
        return []


def _events(home: Home, cwd: Path, most: int, redactor: Redactor) -> list[str]:
    """Return the newest lines of the newest session's event log: of this directory, else of any."""
    for places in ([home.project(cwd)], _directories_in(home.own / "projects")):
        if (log := newest_log(places)) is not None:
            return _tail(log, most, redactor)
    return []


TAIL_BYTES = 4_000_000
"""Maximum bytes that are read at the end of an event log."""


def _tail(log: Path, most: int, redactor: Redactor) -> list[str]:
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = deque(file, maxlen=most)
    except OSError:
        return []
    return [text for line in lines if (text := _event(line, redactor))]


def _event(line: bytes, redactor: Redactor) -> str:
    try:
        raw: object = json.loads(line)
    except ValueError:
        return json.dumps({"type": "unreadable", "bytes": len(line)})
    event = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    if not event or event.get("type") == "snapshot":
        return ""
    return json.dumps(redactor.event(event), ensure_ascii=False)


CRASHES_MOST = 5
"""Maximum number of crash files, the newest first."""


def _crashes(home: Home, redactor: Redactor) -> Iterator[ReportPart]:
    try:
        found = sorted(home.debug.glob("crash-*.txt"), key=lambda path: path.name)[-CRASHES_MOST:]
    except OSError:
        return
    for path in found:
        try:
            text = path.read_text("utf-8", "replace") if path.is_file() else ""
        except OSError:
            continue
        yield ReportPart(f"crashes/{path.name}", "where a mistake happened", redactor.crash(text))


# ── redaction ──────────────────────────────────────────────────────────────────────────────────────────────────

SHOWN_SETTINGS = frozenset(
    {
        *("model", "effort", "permissions.defaultMode", "plan_approval", "members.backend", "members.pane_layout"),
        *("unattended_requests", "thinking", "cache_hour", "bash.shell"),
    }
)
"""Settings whose text is shown: names of Teamwright, of models and of shells."""

RULES = frozenset({"permissions.allow", "permissions.ask", "permissions.deny"})

SHOWN_IN_EVENTS = frozenset(
    {
        *(
            "type",
            "member",
            "agent",
            "to",
            "call",
            "tool",
            "tools",
            "outcome",
            "stop",
            "state",
            "kind",
            "change",
            "mode",
        ),
        *("by", "verdict", "model", "effort", "wire", "limit", "level", "trigger", "doing", "request", "message_id"),
        *("message_ids", "session", "id", "status", "owner", "blocked_by", "origin", "caller", "use", "team", "aside"),
    }
)
"""Keys of an event whose text is shown when it is a single word."""

_WORD = re.compile(r"[\w.:#@/+-]{1,80}")
_FRAME = re.compile(r'\s*File "[^"]+", line \d+, in \S+|\s*\+?-+\s*|.*\(most recent call last\):|\s*[~^]+\s*')
_HEAD = re.compile(r"(teamwright|python|platform|flags) ")
_ERROR = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?")
_IN_URL = re.compile(r"(?<=://)[^/\s@]+@")


class Redactor(Struct, frozen=True):
    """A redactor. `env` is the environment with the known secrets; `hidden` are further texts to mask."""

    env: Mapping[str, str]
    hidden: tuple[str, ...] = ()

    def text(self, text: str) -> str:
        """Return the text without secrets, and with `~` for the user's home."""
        text = mask_values(text, self.hidden, "…")
        home = self.env.get("HOME") or os.path.expanduser("~")
        text = text.replace(home, "~") if len(home) > 1 else text
        return _IN_URL.sub("…@", mask_secrets(text, self.env))

    def setting(self, name: str, value: Any) -> Any:
        """Redact a setting: numbers and switches are kept, allowed texts too; others are replaced by their length."""
        if isinstance(value, bool | int | float) or value is None:
            return value
        if isinstance(value, str):
            return self.text(value) if name in SHOWN_SETTINGS else left_out(value)
        if name in RULES and isinstance(value, list):
            return [_redact_rule(rule) for rule in cast("list[Any]", value)]
        return f"{len(cast('list[Any]', value))} entries, left out" if isinstance(value, list | dict) else "left out"

    def event(self, raw: Any, key: str = "type") -> Any:
        """Redact an event, or a part of one: numbers and single words are kept, other texts are replaced by their
        length.
        """
        if isinstance(raw, dict):
            rows = cast("dict[str, Any]", raw)
            if key in ("input", "facts"):
                return f"{len(rows)} entries, left out"
            return {str(name): self.event(value, str(name)) for name, value in rows.items() if _WORD.fullmatch(name)}
        if isinstance(raw, list):
            return [self.event(value, key) for value in cast("list[Any]", raw)]
        if isinstance(raw, str):
            return self.text(raw) if key in SHOWN_IN_EVENTS and (not raw or _WORD.fullmatch(raw)) else left_out(raw)
        return raw

    def crash(self, text: str) -> str:
        """Redact a crash file: versions, flags, files and line numbers are kept; error texts and code lines are
        removed.
        """
        remaining_lines: list[str] = []
        for line in text.splitlines():
            if _HEAD.match(line) or _FRAME.fullmatch(line):
                remaining_lines.append(line)
            elif line and not line[0].isspace() and (found := _ERROR.fullmatch(line)):
                remaining_lines.append(found[1] + (f": {left_out(found[2])}" if found[2] else ""))
        return self.text("\n".join(remaining_lines) + "\n")


def left_out(text: str) -> str:
    """Return the replacement of a text."""
    return f"({len(text):,} characters left out)" if text else ""


def _redact_rule(rule: Any) -> str:
    name, inside, _ = str(rule).partition("(")
    return (name if _WORD.fullmatch(name) else left_out(name)) + ("(…)" if inside else "")


def secrets_in(values: Iterable[Any]) -> tuple[str, ...]:
    """Return the texts under `env` or `headers` anywhere in settings, which are never shown."""
    found: list[str] = []
    for value in values:
        found += _secrets_under(value, secret=False)
    return tuple(dict.fromkeys(text for text in found if len(text) >= 4))


def _secrets_under(value: Any, *, secret: bool) -> list[str]:
    if isinstance(value, dict):
        rows = cast("dict[str, Any]", value)
        return [t for key, one in rows.items() for t in _secrets_under(one, secret=secret or key in ("env", "headers"))]
    if isinstance(value, list):
        return [text for one in cast("list[Any]", value) for text in _secrets_under(one, secret=secret)]
    return [value] if secret and isinstance(value, str) else []
