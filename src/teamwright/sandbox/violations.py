"""Refusals of the sandbox, as far as the output of a command shows them: writes, reads and connections.

A program reports a refusal in its own text, so this reads the texts of the C library, Python and Node. Depends on the
policy and on the disk: a path that the user could not change either was not refused by the sandbox.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from teamwright.protocol.events import SandboxRefused
from teamwright.sandbox.known_paths import SYSTEM, is_kept, start_files
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxPolicy, is_inside

_READ_ONLY = re.compile(r"[Rr]ead-only file system|Device or resource busy|EROFS")
_DENIED = re.compile(r"[Pp]ermission denied|EACCES" + r"|Operation not permitted|EPERM" * (sys.platform == "darwin"))
"""Texts of refusals without mounts: Seatbelt of macOS has one that means something else on Linux."""
_CONNECTS = re.compile(r"connect|socket", re.I)
_MISSING = re.compile(r"No such file or directory|ENOENT|FileNotFoundError")
_QUOTED = re.compile(r"['\"‘`]([^'\"‘’`\n]+)['\"’`]")
_PATH = re.compile(r"(?:^|\s|:)(?P<path>~?/[^'\"’\n:]+|[\w.][^'\"’\n:\s]*/[^'\"’\n:\s]+)")
_NETWORK = re.compile(
    r"Network is unreachable|ENETUNREACH|Could not resolve host:? ?(?P<host>[\w.-]*)"
    r"|Temporary failure in name resolution|Name or service not known|EAI_AGAIN"
    r"|failed to lookup address|dial tcp: lookup (?P<other>[\w.-]+)"
)
_SOCKET = re.compile(
    r"(?:docker daemon|docker\.sock|Failed to connect to (?:bus|user scope bus)|agent refused operation)"
)
_REFUSED = re.compile(r"[Cc]onnection refused|ECONNREFUSED|Couldn't connect to server|Failed to connect")
_LOCAL_PORT = re.compile(r"(?:localhost|127\.0\.0\.1|::1)\D{1,8}(\d{2,5})\b")
_SIGNS = re.compile(
    r"gpg failed to sign the data|unable to sign the tag|No private key found for|Couldn't (?:load|find|get|sign)\b"
)
_KEY_DIRECTORIES = (".gnupg", ".ssh")
_MAX = 3
_LISTENING = "0A"
"""The state of a listening socket in /proc/net/tcp (proc(5))."""


class Violation(Struct, frozen=True):
    """A refusal: `act` is write, read, connect or sign; `target` is the path or host, empty where it is unknown."""

    act: str
    target: str = ""

    def __str__(self) -> str:
        if self.act == "connect":
            return f"connect to {self.target or 'the network'}"
        if self.act == "sign":
            return f"sign with keys of {short_path(self.target)}"
        return f"{self.act} {short_path(self.target) or 'a file'}"


class Refusal(Struct, frozen=True):
    """The refusals of one command, and a sentence about what a person can do to allow them."""

    policy: PolicyName
    violations: tuple[Violation, ...]
    allow: str

    def note(self) -> str:
        """Return the lines for the model."""
        refused = "; ".join(f"to {violation}" for violation in self.violations)
        return f"[The sandbox (policy {self.policy}) refused {refused}. {self.allow}]"

    def event(self) -> SandboxRefused:
        """Return the event. The toolbox adds the member and the call."""
        refused = tuple(map(str, self.violations))
        return SandboxRefused(member="", call="", policy=self.policy, refused=refused, allow=self.allow)


def find_refusal(
    policy: SandboxPolicy, output: str, cwd: str, hosts: Sequence[str] = (), *, replaces_tmp: bool
) -> Refusal | None:
    """Return the refusals that an output shows, each once and at most a few; None without one.

    `hosts` are those that the proxy refused.
    `replaces_tmp`: the command has a private `/tmp`, and a read-only file system in the place of missing rights.
    """
    found: dict[Violation, None] = {Violation("connect", host): None for host in hosts[:_MAX]}
    for violation in _all_violations(policy, output, cwd, replaces_tmp=replaces_tmp):
        found[violation] = None
        if len(found) >= _MAX:
            break
    return Refusal(policy.name, tuple(found), _advice(policy, tuple(found), cwd)) if found else None


def _all_violations(policy: SandboxPolicy, output: str, cwd: str, *, replaces_tmp: bool) -> Iterator[Violation]:
    for line in output.split("\n"):
        if replaces_tmp and _READ_ONLY.search(line):
            yield Violation("write", _path_in(line))
        elif not replaces_tmp and _DENIED.search(line) and not _CONNECTS.search(line):
            yield from _denied_acts(policy, _path_in(line), cwd)
        elif replaces_tmp and _MISSING.search(line) and (act := _act_in_replaced(policy, _path_in(line))):
            yield Violation(act, _path_in(line))
        if policy.network is not NetworkAccess.ALLOW:
            yield from _connections(line)
        if _SIGNS.search(line):  # git with commit.gpgsign: the keys and their agent are what a person allows by name
            places = (path for path in sorted(policy.hidden) if os.path.basename(path) in _KEY_DIRECTORIES)
            yield from (Violation("sign", path) for path in places)
        if _DENIED.search(line) or _MISSING.search(line):
            named = _absolute(_path_in(line), cwd)
            hidden = (path for path in sorted(policy.hidden) if path in line or is_inside(named, path))
            yield from (Violation("read", path) for path in hidden if not is_inside(cwd, path))


def _denied_acts(policy: SandboxPolicy, named: str, cwd: str) -> Iterator[Violation]:
    """Yield the act on a path that rights of files would allow this user, so that the sandbox refused it."""
    path = _absolute(named, cwd)
    if not named or policy.hides(path):
        return  # hidden paths are found by their names
    if policy.name is PolicyName.READ and not any(is_inside(path, top) for top in (*SYSTEM, *policy.readable)):
        if os.access(path, os.R_OK):
            yield Violation("read", named)
        return
    there = path if os.path.exists(path) else os.path.dirname(path)
    if os.access(there, os.W_OK):
        yield Violation("write", named)


def _act_in_replaced(policy: SandboxPolicy, path: str) -> str:
    """Return the act on a path that only the system's `/tmp` or `/var/tmp` has, or whose directory only it has."""
    if any(is_inside(path, top) for top in (*policy.readable - {"/"}, *policy.writable)):
        return ""
    top = next((top for top in ("/tmp", "/var/tmp") if path.startswith(f"{top}/")), None)
    ours = policy.temporary + path.removeprefix("/tmp") if top == "/tmp" else ""
    if top is None or (ours and os.path.lexists(ours)):
        return ""
    if os.path.lexists(path):
        return "read"
    place = os.path.dirname(path)
    return (
        "write" if place != top and os.path.isdir(place) and not (ours and os.path.isdir(os.path.dirname(ours))) else ""
    )


def _connections(line: str) -> Iterator[Violation]:
    for found in _NETWORK.finditer(line):
        yield Violation("connect", (found["host"] or found["other"] or "").strip("."))
    for found in _SOCKET.finditer(line):
        yield Violation("connect", found[0])
    if _REFUSED.search(line) or _DENIED.search(line):
        for found in _LOCAL_PORT.finditer(line):
            if _listens(int(found[1])):  # outside of the sandbox a server answers there
                yield Violation("connect", f"localhost:{found[1]}")


def _listens(port: int) -> bool:
    for file in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(file, encoding="ascii") as rows:
                fields = [row.split() for row in rows][1:]
        except OSError:
            continue
        if any(row[1].endswith(f":{port:04X}") and row[3] == _LISTENING for row in fields):
            return True
    return False


def _absolute(path: str, cwd: str) -> str:
    return os.path.realpath(os.path.join(cwd, os.path.expanduser(path)))


def _is_always_kept(policy: SandboxPolicy) -> Callable[[str], bool]:
    """Return a function that is true for a path that stays unchanged also in a directory that a person gave."""
    kept = policy.protected | policy.guarded
    starts = start_files(os.path.expanduser("~"))
    return lambda path: is_kept(path, starts) or policy.hides(path) or any(is_inside(path, one) for one in kept)


def _path_in(line: str) -> str:
    quoted = [found[1] for found in _QUOTED.finditer(line)]
    paths = quoted or [found["path"].strip() for found in _PATH.finditer(line)]
    return paths[-1] if paths else ""


def short_path(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path.removeprefix(home)}" if home != "/" and is_inside(path, home) else path


def _advice(policy: SandboxPolicy, violations: tuple[Violation, ...], cwd: str) -> str:
    """Return what a person can do, and for a temporary file what the model can do."""
    acts = {violation.act for violation in violations}
    in_tmp = all(violation.target.startswith("/tmp/") for violation in violations)
    if policy.name is PolicyName.READ and acts != {"read"}:
        return "The command was allowed because it only reads. For more, call it in a form that asks."
    written = [_absolute(violation.target, cwd) for violation in violations if violation.act == "write"]
    directory = short_path(os.path.dirname(written[0])) if written and violations[0].target else "DIR"
    if in_tmp and acts == {"write"}:
        more = (
            f" The user can allow the directory with --add-dir {directory}." if directory not in {"/tmp", "DIR"} else ""
        )
        return f"Write temporary files to $TMPDIR.{more}"
    outside = "or the command with the answer 'outside the sandbox', a rule Unconfined(…) or --sandbox off."
    if in_tmp and acts == {"read"}:
        return "Commands have the session's own /tmp; Read shows this file, and the setting sandbox.read shows it here."
    if written and not any(map(_is_always_kept(policy), written)):
        return f"The user can allow the path with --add-dir {directory} or the setting sandbox.write, {outside}"
    if acts == {"read"} and all(violation.target.startswith("/var/tmp/") for violation in violations):
        return f"The user can show the file with --add-dir DIR or the setting sandbox.read, {outside}"
    if "connect" in acts:
        return f"The user can allow a host with a rule WebFetch(domain:…), all with sandbox.network, {outside}"
    return f"The user can allow {outside.removeprefix('or ')}"
