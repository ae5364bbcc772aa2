"""Paths of all files and directories: the only module that knows the directory layout.

One `Home` for each state root. A root of the other product joins its teams: `teams`, `tasks` and `plans` are then
shared, and the files of Teamwright alone are under `teamwright/` inside it. Reads and writes none of these files;
`prepare` creates the root and tries to write in it.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from shlex import quote

from msgspec import Struct
from msgspec.structs import replace

from teamwright.protocol.errors import CannotStart, InvalidName, StorageError
from teamwright.protocol.ids import directory_name, inbox_stem

FOREIGN_ROOT = ".claude"
"""The name of the other product's root: recognised by name, never by content."""


class Home(Struct, frozen=True):
    """A state root. `shared` contains the files that both products read; `own` all others (equal unless the root is
    foreign). `origin` names for a person the database of which this is a private copy."""

    shared: Path
    own: Path
    origin: str = ""
    is_named: bool = False
    """True when a flag or a program named the root: commands that a person pastes must name it too."""

    @classmethod
    def at(cls, root: Path) -> Home:
        """Return the home at this root; the name `.claude` marks a foreign root.

        Raises CannotStart (`read-only-home`) for a root below `~` of a user that has no home.
        """
        expanded = os.path.expanduser(root)
        if expanded.split(os.sep)[0] == "~":
            raise CannotStart(
                "read-only-home",
                f"there is no directory for the state: HOME is not set, and user {os.getuid()} has no home",
                looked_at=[("looked for", str(root))],
                do=["teamwright --home DIR …", "export TEAMWRIGHT_HOME=DIR", "export HOME=DIR"],
                note="nothing was started",
            )
        root = Path(os.path.abspath(expanded))
        return cls(root, root / "teamwright" if root.name == FOREIGN_ROOT else root)

    @property
    def is_foreign(self) -> bool:
        """True when the root belongs to the other product: its file modes are not changed."""
        return self.shared != self.own

    def name_in(self, command: str) -> str:
        """Return the command with `--home`, if the root is not that of the environment."""
        return command_with_home(command, str(self.shared) if self.is_named else None)

    # teams
    def team(self, directory: str) -> Path:
        """Return `teams/<dir>`."""
        return self._inside(self.shared / "teams", directory)

    def config(self, directory: str) -> Path:
        """Return `teams/<dir>/config.json`: the roster."""
        return self.team(directory) / "config.json"

    def team_file(self, directory: str) -> Path:
        """Return `teams/<dir>/team.json`: uuid, lease, incarnations."""
        return self.team(directory) / "team.json"

    def inbox(self, directory: str, name: str) -> Path:
        """Return `teams/<dir>/inboxes/<name>.json`."""
        return self.team(directory) / "inboxes" / f"{inbox_stem(name)}.json"

    def inbox_archive(self, directory: str, name: str) -> Path:
        """Return `teams/<dir>/inboxes/archive/<name>.jsonl`: consumed entries beyond the newest 50."""
        return self.team(directory) / "inboxes" / "archive" / f"{inbox_stem(name)}.jsonl"

    def requests(self, directory: str) -> Path:
        """Return the directory of open requests and their answers."""
        return (
            self.own / "teamwork" / directory_name(directory) if self.is_foreign else self.team(directory)
        ) / "requests"

    def doorbell(self, directory: str, name: str) -> Path:
        """Return the doorbell socket of a member."""
        base = self.own / "teamwork" / directory_name(directory) if self.is_foreign else self.team(directory)
        return base / "bells" / inbox_stem(name)

    # tasks
    def tasks(self, directory: str) -> Path:
        """Return `tasks/<dir>`: one file a task."""
        return self._inside(self.shared / "tasks", directory)

    # guards: outside everything that TeamDelete removes
    def guard(self, protected: Path) -> Path:
        """Return the guard file that Teamwright processes lock before they change `protected` (a path under teams or
        tasks)."""
        relative = protected.relative_to(self.shared)
        return self.own / "guards" / relative

    # sessions
    def project(self, cwd: Path) -> Path:
        """Return `projects/<slug>`: all sessions of a working directory."""
        return self.own / "projects" / project_slug(cwd)

    def transcript(self, cwd: Path, session: str) -> Path:
        """Return `projects/<slug>/<session>.jsonl`: the lead's conversation."""
        return _transcript_path(self.own, cwd, session)

    def session(self, cwd: Path, session: str) -> Path:
        """Return `projects/<slug>/<session>/`: event log, prefixes, members' transcripts, outputs, file history."""
        return _session_path(self.own, cwd, session)

    def agent_transcript(self, cwd: Path, session: str, agent: str) -> Path:
        """Return `projects/<slug>/<session>/agents/<name or id>.jsonl`."""
        return _agent_transcript_path(self.own, cwd, session, agent)

    # others
    @property
    def plans(self) -> Path:
        return _plans_path(self.shared)

    @property
    def archive(self) -> Path:
        """`archive/`: requests, mail and tasks of deleted teams."""
        return self.own / "archive"

    @property
    def rate_limits(self) -> Path:
        """`governors/`: the rate-limit state that processes with the same key share."""
        return self.own / "governors"

    @property
    def worktrees(self) -> Path:
        """`worktrees/`: the worktrees of members, a directory for each repository."""
        return self.own / "worktrees"

    def integration(self, directory: str) -> Path:
        """Return `integration/<team directory>/`, the integration queue of a team."""
        return self.own / "integration" / directory

    @property
    def mcp_logins(self) -> Path:
        """`mcp-logins/`: the logins at MCP servers, one file for each server."""
        return self.own / "mcp-logins"

    @property
    def mcp_listings(self) -> Path:
        """`mcp/`: the last tool listings of MCP servers, one file for each configuration."""
        return self.own / "mcp"

    @property
    def shell_snapshots(self) -> Path:
        """`shell-snapshots/`: the environment after the startup files of the user's shell, one file a session."""
        return self.own / "shell-snapshots"

    def session_variables(self, session: str) -> Path:
        """Return `session-env/<session>/variables.sh`: what hooks set for the session's commands."""
        return self._inside(self.own / "session-env", session) / "variables.sh"

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

    def debug_log(self, session: str, member: str = "") -> Path:
        """Return `debug/<session>.txt`, or the log of a member process, `debug/<session>/<member>.txt`."""
        name = f"{directory_name(session)}/{inbox_stem(member)}" if member else directory_name(session)
        return self.debug / f"{name}.txt"

    def debug_logs(self, session: str) -> tuple[Path, ...]:
        """Return all debug logs of a session: its file, the rotated one, and the directory of its member processes."""
        file = self.debug_log(session)
        return file, file.with_name(f"{file.name}.1"), file.with_suffix("")

    @property
    def prompt_history(self) -> Path:
        """`history`: the prompts that were typed."""
        return self.own / "history"

    def require_readable(self) -> Home:
        """Return the home. Raises CannotStart (`read-only-home`) when it, or one of its directories, cannot be read."""
        for path in dict.fromkeys((self.shared, self.own, *(self.shared / name for name in ("teams", "tasks")))):
            try:
                os.scandir(path).close()
                os.stat(path / "x")  # names can be read without the permission to enter
            except FileNotFoundError:
                continue
            except OSError as problem:
                raise _unreadable(self.shared, path, problem) from problem
        return self

    def prepare(self) -> None:
        """Create the root, 0700. Raises CannotStart (`read-only-home`), or StorageError when the disk is full."""
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
        path = parent / directory_name(name)
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(parent)):
            raise InvalidName("bad-name", f"{path} leads out of {parent}", note="nothing was touched")
        return path


def _unreadable(root: Path, path: Path, problem: OSError) -> CannotStart:
    """Return the error about a directory of a home that this user cannot read, with what to type about it."""
    elsewhere = ["teamwright --home DIR …", "export TEAMWRIGHT_HOME=DIR"]
    found = [("reason", _reason(problem))]
    if isinstance(problem, PermissionError):
        with suppress(OSError):
            owner = os.stat(path).st_uid
            user = os.geteuid()
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
    """Return the home at `root`, else at `TEAMWRIGHT_HOME`, else `~/.teamwright`. It may be unreadable."""
    home = Home.at(Path(root or os.environ.get("TEAMWRIGHT_HOME") or "~/.teamwright"))
    return replace(home, is_named=True) if root else home


CLIENT_ROOT_VARIABLE = "CLAUDE_CONFIG_DIR"
"""The variable that names the state root of the other product, for it and for clients that were written for it."""


def client_root() -> Path:
    """Return the state root of the other product: `CLAUDE_CONFIG_DIR`, else `~/.claude`."""
    return Path(os.path.expanduser(os.environ.get(CLIENT_ROOT_VARIABLE) or "~/.claude"))


_COMMAND = re.compile(r"\bteamwright (?=[a-z-])")
"""The beginning of a command in a text; not the name of the product."""


def command_with_home(command: str, root: str | None) -> str:
    """Return the command with the root that was named for this run; unchanged without one, or if it names one.

    It also works within a sentence: `end it with: teamwright stop crew`, and `teamwright resume a, or teamwright …`.
    """
    if root is None or "--home" in command:
        return command
    named = f"teamwright --home {quote(os.path.abspath(os.path.expanduser(root)))} "
    first, *others = command.split(", or teamwright ")
    return f", or {named}".join([_COMMAND.sub(lambda _: named, first, count=1), *others])


@lru_cache(maxsize=64)
def _session_path(own: Path, cwd: Path, session: str) -> Path:
    """Return the session's directory; cached, because every new agent needs it."""
    return own / "projects" / project_slug(cwd) / directory_name(session)


@lru_cache(maxsize=64)
def _agent_transcript_path(own: Path, cwd: Path, session: str, agent: str) -> Path:
    """Return an agent's transcript; cached, because every new agent and every status needs it."""
    return _session_path(own, cwd, session) / f"agents/{inbox_stem(agent)}.jsonl"


@lru_cache(maxsize=8)
def _plans_path(shared: Path) -> Path:
    return shared / "plans"


@lru_cache(maxsize=64)
def _transcript_path(own: Path, cwd: Path, session: str) -> Path:
    return own / "projects" / project_slug(cwd) / f"{directory_name(session)}.jsonl"


def project_slug(cwd: Path) -> str:
    """Return a working directory as one name: all characters but letters and digits become `-` (as observed)."""
    return re.sub(r"[^a-zA-Z0-9]", "-", str(cwd))[-200:]


def make_private(directory: Path) -> None:
    """Create a directory and its missing parents, each 0700 regardless of the umask."""
    if directory.is_dir():
        return
    make_private(directory.parent)
    try:
        os.mkdir(directory, 0o700)
        os.chmod(directory, 0o700)
    except FileExistsError:
        if not directory.is_dir():
            raise
