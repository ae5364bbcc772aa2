"""Where everything lies: the only place that knows folders.

One `Home` for a state root. Pointing it at the other product's root joins its teams: then `teams`, `tasks` and
`plans` are shared and all that is only ours lies under `teamwright/` inside it. Knows names; opens no file but
to make a directory.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from shlex import quote

from teamwright.protocol.errors import CannotStart, InvalidName, StorageError
from teamwright.protocol.ids import directory_name, inbox_stem
from teamwright.protocol.values import dataclass

FOREIGN_ROOT = ".claude"
"""Name of the other product's root: found by name, never guessed from content."""


@dataclass(frozen=True, slots=True)
class Home:
    """A state root. `shared` holds what both products read; `ours` all else (the same unless the root is foreign)."""

    shared: Path
    own: Path

    @classmethod
    def at(cls, root: Path) -> Home:
        """The home at this root; `.claude` is recognised as foreign by its name.

        Raises CannotStart (`read-only-home`) for a root below `~` of a user that has no home.
        """
        expanded = os.path.expanduser(root)
        if expanded.split(os.sep)[0] == "~":
            raise CannotStart(
                "read-only-home",
                f"there is no place to keep anything: HOME is not set, and user {os.getuid()} has no home",
                looked_at=[("looked for", str(root))],
                do=["teamwright --home DIR …", "export TEAMWRIGHT_HOME=DIR", "export HOME=DIR"],
                note="nothing was started",
            )
        root = Path(os.path.abspath(expanded))
        return cls(root, root / "teamwright" if root.name == FOREIGN_ROOT else root)

    @property
    def is_foreign(self) -> bool:
        """Whether the root belongs to the other product: its modes are left alone."""
        return self.shared != self.own

    # teams
    def team(self, directory: str) -> Path:
        """`teams/<dir>`."""
        return self._inside(self.shared / "teams", directory)

    def config(self, directory: str) -> Path:
        """`teams/<dir>/config.json`: the roster."""
        return self.team(directory) / "config.json"

    def team_file(self, directory: str) -> Path:
        """`teams/<dir>/team.json`: uuid, lease, incarnations."""
        return self.team(directory) / "team.json"

    def inbox(self, directory: str, name: str) -> Path:
        """`teams/<dir>/inboxes/<name>.json`."""
        return self.team(directory) / "inboxes" / f"{inbox_stem(name)}.json"

    def inbox_archive(self, directory: str, name: str) -> Path:
        """`teams/<dir>/inboxes/archive/<name>.jsonl`: consumed entries beyond the newest 50."""
        return self.team(directory) / "inboxes" / "archive" / f"{inbox_stem(name)}.jsonl"

    def requests(self, directory: str) -> Path:
        """The directory of open requests and their answers."""
        return (
            self.own / "teamwork" / directory_name(directory) if self.is_foreign else self.team(directory)
        ) / "requests"

    def doorbell(self, directory: str, name: str) -> Path:
        """The doorbell socket of a member."""
        base = self.own / "teamwork" / directory_name(directory) if self.is_foreign else self.team(directory)
        return base / "bells" / inbox_stem(name)

    # tasks
    def tasks(self, directory: str) -> Path:
        """`tasks/<dir>`: one file a task."""
        return self._inside(self.shared / "tasks", directory)

    # guards: outside everything that TeamDelete removes
    def guard(self, protected: Path) -> Path:
        """The guard file that our processes lock before they touch `protected` (a path under teams or tasks)."""
        relative = protected.relative_to(self.shared)
        return self.own / "guards" / relative

    # sessions
    def project(self, cwd: Path) -> Path:
        """`projects/<slug>`: all sessions of a working directory."""
        return self.own / "projects" / project_slug(cwd)

    def transcript(self, cwd: Path, session: str) -> Path:
        """`projects/<slug>/<session>.jsonl`: the lead's conversation."""
        return _transcript_path(self.own, cwd, session)

    def session(self, cwd: Path, session: str) -> Path:
        """`projects/<slug>/<session>/`: event log, prefixes, members' transcripts, outputs, file history."""
        return _session_path(self.own, cwd, session)

    def agent_transcript(self, cwd: Path, session: str, agent: str) -> Path:
        """`projects/<slug>/<session>/agents/<name or id>.jsonl`."""
        return _agent_transcript_path(self.own, cwd, session, agent)

    # others
    @property
    def plans(self) -> Path:
        """`plans/`."""
        return _plans_path(self.shared)

    @property
    def archive(self) -> Path:
        """`archive/`: requests, mail and tasks of deleted teams."""
        return self.own / "archive"

    @property
    def rate_limits(self) -> Path:
        """`governors/`: what processes with the same key know of its rate limit."""
        return self.own / "governors"

    @property
    def mcp_listings(self) -> Path:
        """`mcp/`: what MCP servers listed last, by what their configuration says."""
        return self.own / "mcp"

    @property
    def shell_snapshots(self) -> Path:
        """`shell-snapshots/`: what the startup of the user's shell made, one file a session."""
        return self.own / "shell-snapshots"

    @property
    def trust(self) -> Path:
        """`trust.json`."""
        return self.own / "trust.json"

    @property
    def settings(self) -> Path:
        """`settings.json` of the user."""
        return self.own / "settings.json"

    @property
    def debug(self) -> Path:
        """`debug/`: debug logs and crash files."""
        return self.own / "debug"

    @property
    def prompt_history(self) -> Path:
        """`history`: what was typed at the prompt."""
        return self.own / "history"

    def require_readable(self) -> Home:
        """Return the home. Raises CannotStart (`read-only-home`) when it, or a directory of it, cannot be read."""
        for path in dict.fromkeys((self.shared, self.own, *(self.shared / name for name in ("teams", "tasks")))):
            try:
                os.scandir(path).close()
                os.stat(path / "x")  # names alone can be read without the right to enter
            except FileNotFoundError:
                continue
            except OSError as problem:
                raise _unreadable(self.shared, path, problem) from problem
        return self

    def prepare(self) -> None:
        """Make the root, 0700. Raises CannotStart (`read-only-home`), or StorageError when the disk is full."""
        try:
            make_private(self.own)
            probe = self.own / f".probe.{os.getpid()}"
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            probe.unlink(missing_ok=True)
        except OSError as problem:
            full = problem.errno in {errno.ENOSPC, errno.EDQUOT}
            kind, slug = (StorageError, "disk-full") if full else (CannotStart, "read-only-home")
            raise kind(
                slug,
                f"cannot write to {self.own}",
                looked_at=[("reason", _reason(problem))],
                do=["teamwright --home DIR …", "export TEAMWRIGHT_HOME=DIR"],
                note="nothing was started",
            ) from problem

    @staticmethod
    def _inside(parent: Path, name: str) -> Path:
        made = parent / directory_name(name)
        if made.is_symlink() and not Path(os.path.realpath(made)).is_relative_to(os.path.realpath(parent)):
            raise InvalidName("bad-name", f"{made} leads out of {parent}", note="nothing was touched")
        return made


def _unreadable(root: Path, path: Path, problem: OSError) -> CannotStart:
    """The error about a directory of a home that this user cannot read, with what to type about it."""
    elsewhere = ["teamwright --home DIR …", "export TEAMWRIGHT_HOME=DIR"]
    found = [("reason", _reason(problem))]
    if isinstance(problem, PermissionError):
        with suppress(OSError):
            owner, user = os.stat(path).st_uid, os.geteuid()
            own = f"chmod -R u+rwX {quote(str(root))}"
            elsewhere.insert(0, own if owner == user else f"sudo chown -R {user} {quote(str(root))}")
            found.append(("owner", f"user {owner}; this process runs as user {user}"))
    part = "" if path == root else f": {path} is closed to this user"
    what = f"the home {root} cannot be read{part}"
    return CannotStart("read-only-home", what, looked_at=found, do=elsewhere, note="nothing was started")


def _reason(problem: OSError) -> str:
    if isinstance(problem, FileExistsError | NotADirectoryError):
        return "a file is in its place"
    return problem.strerror or str(problem)


def find_home(root: str | None = None) -> Home:
    """The home that was named, else `TEAMWRIGHT_HOME`, else `~/.teamwright`. It may be unreadable."""
    return Home.at(Path(root or os.environ.get("TEAMWRIGHT_HOME") or "~/.teamwright"))


@lru_cache(maxsize=64)
def _session_path(ours: Path, cwd: Path, session: str) -> Path:
    """Asked for with every agent that is made."""
    return ours / "projects" / project_slug(cwd) / directory_name(session)


@lru_cache(maxsize=64)
def _agent_transcript_path(ours: Path, cwd: Path, session: str, agent: str) -> Path:
    """Asked for twice with every agent that is made, and with every look at it."""
    return _session_path(ours, cwd, session) / f"agents/{inbox_stem(agent)}.jsonl"


@lru_cache(maxsize=8)
def _plans_path(shared: Path) -> Path:
    return shared / "plans"


@lru_cache(maxsize=64)
def _transcript_path(ours: Path, cwd: Path, session: str) -> Path:
    return ours / "projects" / project_slug(cwd) / f"{directory_name(session)}.jsonl"


def project_slug(cwd: Path) -> str:
    """A working directory as one name: everything but letters and digits becomes `-` (as observed)."""
    return re.sub(r"[^a-zA-Z0-9]", "-", str(cwd))[-200:]


def make_private(directory: Path) -> None:
    """Make a directory and its missing parents, each 0700 whatever the umask."""
    if directory.is_dir():
        return
    make_private(directory.parent)
    try:
        os.mkdir(directory, 0o700)
        os.chmod(directory, 0o700)
    except FileExistsError:
        if not directory.is_dir():
            raise
