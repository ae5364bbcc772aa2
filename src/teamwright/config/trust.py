"""Trust: the entries of a repository that a person allowed, and the check that a person, not an agent, runs a command.

`<home>/trust.json`, mode 0600: a version, and for each repository (the real path of its common git directory; outside
git of the directory) the digest of every entry. A new or changed entry is not trusted. A command that needs a person is
refused in an agent's command; the session of that agent logs the refusal.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.config.settings.files import bad_settings
from teamwright.git.repository import trust_root, work_tree
from teamwright.git.repository_risks import GitEntry
from teamwright.permissions.verdict import Mode
from teamwright.protocol.errors import StorageError, TeamwrightError, UsageError
from teamwright.protocol.ids import now_ms
from teamwright.requests.request_store import REFUSED, RequestStore
from teamwright.storage.doorbell import ring
from teamwright.storage.files import write_atomic
from teamwright.storage.locks import hold_exclusive
from teamwright.storage.paths import Home, make_private

if TYPE_CHECKING:
    from teamwright.config.trust_entries import TrustEntry
    from teamwright.processes.agent_command_detection import AgentCommand


VERSION = 1


class TrustState(Struct, frozen=True):
    """The trust state of a repository.

    `root` is its work tree, `bound_to` the key of its trust. `trusted`: a person trusted it, for good or for this run.
    `pending` are untrusted entries, which take no effect. `project`: the repository's agents, skills, commands and
    MCP servers are read; else none of them is an entry.
    """

    root: Path
    bound_to: Path
    trusted: bool
    entries: tuple[TrustEntry, ...] = ()
    pending: tuple[TrustEntry, ...] = ()
    _allowed: frozenset[tuple[str, str]] = frozenset()
    project: bool = True

    @classmethod
    def as_written(cls, root: Path, entries: Iterable[TrustEntry]) -> TrustState:
        """Return a state in which exactly these entries are trusted, for a preview of their effect."""
        return cls(root, root, True, _allowed=frozenset((entry.key, entry.digest) for entry in entries))

    def allows(self, entry: TrustEntry) -> bool:
        """Return True when exactly this entry with exactly this content was trusted."""
        if not self.project and entry.is_asset:
            return False
        return self.trusted and (entry.key, entry.digest) in self._allowed

    def along_with(self, earlier: TrustState) -> TrustState:
        """Return this state plus the entries trusted earlier for one run, in their form of that time."""
        allowed = self._allowed | earlier._allowed
        pending = tuple(entry for entry in self.entries if (entry.key, entry.digest) not in allowed)
        return replace(self, trusted=self.trusted or earlier.trusted, pending=pending, _allowed=allowed)

    @property
    def needs_asking(self) -> tuple[TrustEntry, ...]:
        """The pending entries that would take effect today, about which a person is asked."""
        return tuple(entry for entry in self.pending if entry.effect == "used")

    @property
    def trusted_texts(self) -> frozenset[str]:
        """The texts outside of the repository, by real path, that its instructions may import."""
        from teamwright.config.trust_entries import IMPORT

        return frozenset(entry.name for entry in self.entries if entry.kind == IMPORT and self.allows(entry))

    @property
    def trusted_git(self) -> frozenset[GitEntry]:
        """The trusted entries of the repository's git configuration."""
        found = (entry for entry in self.entries if entry.kind == "git" and self.allows(entry))
        return frozenset(GitEntry(self.root / entry.file, entry.name, entry.digest) for entry in found)


class TrustStore:
    """The trust file. `load` reads it once; `give` and `remove` write it, under its lock."""

    def __init__(self, path: Path, repositories: dict[str, dict[str, Any]]) -> None:
        self._path = path
        self._repositories = repositories

    @classmethod
    def load(cls, home: Home) -> TrustStore:
        """Return the trust stored under this home. Raises CannotStart (`bad-settings`) when the file cannot be read."""
        return cls(home.trust, _read(home.trust))

    def verdict(self, start: Path, *, session: bool = False, compat: bool = True, project: bool = True) -> TrustState:
        """Return the trust state of the repository of this directory. `session`: a person trusts it for this run."""
        stored = self._stored(trust_root(start))
        return trust_state(start, stored, session=session, compat=compat, project=project)

    def give(self, state: TrustState) -> TrustState:
        """Trust the entries that the state showed, and no later ones, for good. Raises StorageError."""
        entries = {entry.key: entry.digest for entry in state.entries}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        with self._latest():
            self._repositories[str(state.bound_to)] = {"trusted_at": now, "entries": entries}
            self._write()
        allowed = frozenset(entries.items())
        return replace(state, trusted=True, pending=(), _allowed=allowed)

    def give_also(self, start: Path, entries: Iterable[TrustEntry]) -> bool:
        """Trust these entries too, which a person just wrote, if the repository is trusted for good.

        Returns False, without a change, when it is not. Raises StorageError.
        """
        with self._latest():
            known = self._stored(trust_root(start))
            if known is None:
                return False
            known.update((entry.key, entry.digest) for entry in entries)
            self._repositories[str(trust_root(start))]["entries"] = known
            self._write()
        return True

    def remove(self, start: Path) -> bool:
        """Remove the trust in the repository of this directory; False when it was not trusted. Raises StorageError."""
        with self._latest():
            known = self._repositories.pop(str(trust_root(start)), None) is not None
            if known:
                self._write()
        return known

    def is_bound_to(self, directory: Path) -> bool:
        """Return True when trust is bound to this directory, or to the repository in it; both may be gone."""
        return not {directory, directory / ".git"}.isdisjoint(self.repositories)

    def remove_bound_to(self, directory: Path) -> None:
        """Remove the trust that is bound to this directory or to the repository in it. Raises StorageError."""
        with self._latest():
            for path in (directory, directory / ".git"):
                self._repositories.pop(str(path), None)
            self._write()

    @property
    def repositories(self) -> tuple[Path, ...]:
        """The trusted repositories, by the path that is the key of their trust."""
        return tuple(Path(name) for name in self._repositories)

    def _stored(self, bound_to: Path) -> dict[str, str] | None:
        known = self._repositories.get(str(bound_to))
        entries: Any = known.get("entries") if known is not None else None
        if not isinstance(entries, dict):
            return None
        return {str(key): str(digest) for key, digest in cast("dict[Any, Any]", entries).items()}

    @contextmanager
    def _latest(self) -> Generator[None]:
        """Hold the lock of the file, with the content that it has now: another process may have written it.

        Raises StorageError for a newer version.
        """
        make_private(self._path.parent)
        with hold_exclusive(self._path.with_suffix(".lock"), self._path):
            self._repositories = _read(self._path)
            version = _version(self._path)
            if version > VERSION:
                raise StorageError(
                    "newer-version",
                    f"{self._path} has version {version}, and this Teamwright knows {VERSION}",
                    do=["use the newer Teamwright that wrote it"],
                    note="nothing was written",
                )
            yield

    def _write(self) -> None:
        content = {"version": VERSION, "repositories": self._repositories}
        write_atomic(self._path, (json.dumps(content, indent=2, sort_keys=True) + "\n").encode())


def _version(path: Path) -> int:
    try:
        return int(json.loads(path.read_text(encoding="utf-8")).get("version", VERSION))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return VERSION


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        read: Any = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as problem:
        raise bad_settings(path, str(problem)) from None
    repositories: Any = cast("dict[str, Any]", read).get("repositories") if isinstance(read, dict) else None
    if not isinstance(repositories, dict):
        raise bad_settings(path, "it does not hold trusted repositories")
    return cast("dict[str, dict[str, Any]]", repositories)


def trust_state(
    start: Path,
    stored: Mapping[str, str] | None,
    *,
    session: bool = False,
    compat: bool = True,
    project: bool = True,
) -> TrustState:
    """Return the state of the repository that contains `start`, compared with its stored digests
    (None: never trusted).
    """
    from teamwright.config.trust_entries import survey_repository  # not for commands that only ask for a person

    root = repository_of(start)
    entries = tuple(entry for entry in survey_repository(root, compat) if project or not entry.is_asset)
    if session:
        allowed = frozenset((entry.key, entry.digest) for entry in entries)
    else:
        allowed = frozenset((stored or {}).items())
    pending = tuple(entry for entry in entries if (entry.key, entry.digest) not in allowed)
    return TrustState(root, trust_root(start), session or stored is not None, entries, pending, allowed, project)


def repository_of(start: Path) -> Path:
    """Return the root of the work tree that contains `start`, else the directory itself, by real path."""
    return work_tree(start) or Path(os.path.realpath(start))


def require_person(home: Home, does: str, tried: str = "") -> None:
    """Raise UsageError (`not-for-agents`) in a command of an agent. `does` names the act that needs a person.

    `tried` is the typed command for the log, without secrets.
    """
    found = agent_command(home)
    if found is None:
        return
    _record_refusal(found, f"{does} ({tried})" if tried else does)
    whose = f"{found.member}, call {found.call}" if found.call else found.member
    raise UsageError(
        "not-for-agents",
        f"only a person {does}, and this is a command that an agent runs",
        looked_at=[(found.fact, found.value), *([("agent", whose)] if whose else [])],
        do=[
            "an agent says in its answer what it needs, and why",
            "a person types it in the session's terminal, or in a terminal that no agent has opened",
        ],
        note="nothing was changed",
    )


def require_person_for_mode(home: Home, mode: Mode) -> None:
    """Raise UsageError (`not-for-agents`) where a command of an agent starts a session in bypassPermissions."""
    if mode is Mode.BYPASS:
        require_person(home, f"starts a session in {mode}")


def agent_command(home: Home) -> AgentCommand | None:
    """Return the facts of this process as a command of an agent; None when a person started it."""
    from teamwright.processes.agent_command_detection import find_agent_command

    return find_agent_command(_recording_directories(home))


def _record_refusal(found: AgentCommand, what: str) -> None:
    """Record the refused command in the session of its agent. A write error loses only this record."""
    if found.directory is None:
        return
    is_member = found.directory.parent.name == "members"
    session = found.directory.parent.parent if is_member else found.directory
    who = f"{found.member} ({found.call})" if found.call else found.member or "an agent"
    text = f"a command of {who}, process {os.getpid()}, was refused: only a person {what}"
    with contextlib.suppress(TeamwrightError, OSError):
        RequestStore(session / "requests").record_late_answer(
            f"refused-{now_ms()}-{secrets.token_hex(4)}", {REFUSED: text}
        )
        ring(session / "bells" / "team-lead")


def _recording_directories(home: Home) -> Iterator[Path]:
    """Yield the directories of all sessions, and of all members' own processes, that have records of processes."""
    for pattern in ("*/*/processes", "*/*/members/*/processes"):
        yield from (path.parent for path in (home.own / "projects").glob(pattern))
