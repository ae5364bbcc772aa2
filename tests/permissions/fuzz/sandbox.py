"""The sandbox: the executor with as little of the real system as this machine can take away from it.

With bubblewrap a line sees a system that is read-only, without network and without other processes. Without it, root
runs each line as a user who owns nothing, and any other user runs none. Knows no verdicts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.permissions.fuzz.world import GROUPS, World, build
from tests.support.programs import reason

ROOT = Path(__file__).parents[3]
NOBODY = 65_534
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_READ_ONLY_PROC = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus")
_MAIN = "import sys; sys.path.insert(0, sys.argv[1]); from tests.permissions.fuzz.executor import main; main()"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a line did. `changes` names each path with what became of it; all of it was put back."""

    output: bytes
    code: int
    timed_out: bool
    changes: Mapping[str, str]


class Sandbox:
    """A world and the process that runs lines in it. A context manager: the directory is removed at the end.

    `is_nested`: the product's sandbox confines each line once more, so the system is the real one, read-only.
    """

    def __init__(self, place: Path | None = None, *, is_nested: bool = False) -> None:
        self.is_nested = is_nested
        if missing := missing_here():
            raise RuntimeError(missing)
        self.base = Path(os.path.realpath(tempfile.mkdtemp(prefix="permission-fuzz-", dir=place)))
        self.base.chmod(0o755)
        self.world: World = build(self.base)
        self.confined = bubblewrap_works()
        if is_nested and not self.confined:
            raise RuntimeError(reason("bwrap"))
        drops = not self.confined and os.geteuid() == 0
        if drops:
            _give(self.base, NOBODY)
        self._process = subprocess.Popen(
            [*(self._bubblewrap() if self.confined else ()), *_python(), str(ROOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
            text=True,
            cwd="/",
        )
        self._ask(self._order(drops))

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the executor and remove the world."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        shutil.rmtree(self.base, ignore_errors=True)

    def run(
        self, argv: Sequence[str], env: Mapping[str, str], groups: frozenset[str], variant: int, commands: int = 1
    ) -> Outcome:
        """Run the argv in the project, with the secrets of these groups in this variant, the others in the first.

        Several `commands` in it have as much more time and room for output.
        """
        variants = {group: variant if group in groups else 0 for group in GROUPS}
        found = self._ask({"argv": list(argv), "env": dict(env), "variants": variants, "commands": commands})
        return Outcome(found["output"].encode("latin-1"), found["code"], found["timed_out"], found["changes"])

    def _order(self, drops: bool) -> dict[str, Any]:
        if self.is_nested:
            return {"base": str(self.base), "also": ["/tmp", "/var/tmp", "/dev/shm"], "own_processes": False}
        shared = ["/tmp", "/var/tmp", "/dev/shm"] if self.confined else []
        order: dict[str, Any] = {"base": str(self.base), "also": shared, "own_processes": self.confined}
        if self.confined:
            order |= {"etc": str(self.base / "etc"), "top": "/"}
        return order | ({"user": NOBODY} if drops else {})

    def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the executor ended with {self._process.wait()} after {json.dumps(order)[:2000]}")
        return json.loads(answer)

    def _bubblewrap(self) -> list[str]:
        if self.is_nested:  # a nested sandbox needs a /proc of the same processes, without mounts in it
            words = ["bwrap", "--unshare-user", "--unshare-ipc", "--unshare-net", "--uid", "1000", "--gid", "1000"]
            words += ["--die-with-parent", "--new-session", "--ro-bind", "/", "/", "--dev-bind", "/proc", "/proc"]
            words += ["--dev", "/dev"]
            return [*words, "--tmpfs", "/tmp", "--tmpfs", "/var/tmp", "--bind", str(self.base), str(self.base), "--"]
        python = os.path.realpath(sys.base_prefix)
        words = ["bwrap", "--unshare-all", "--uid", "1000", "--gid", "1000", "--die-with-parent", "--new-session"]
        words += ["--tmpfs", "/"]
        for name in _SYSTEM:
            path = f"/{name}"
            if os.path.islink(path):
                words += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                words += ["--ro-bind", path, path]
        words += ["--ro-bind", str(self.base / "etc"), "/etc", "--proc", "/proc", "--dev", "/dev"]
        for path in _READ_ONLY_PROC:
            words += ["--ro-bind-try", path, path]
        words += ["--tmpfs", "/tmp", "--dir", "/var/tmp"]
        for path in (python, str(Path(__file__).parent)):
            words += [] if path.startswith("/usr") else ["--ro-bind", path, path]
        return [*words, "--bind", str(self.base), str(self.base), "--"]


def _python() -> list[str]:
    return [os.path.realpath(sys.executable), "-I", "-S", "-c", _MAIN]


def missing_here() -> str:
    """Why no line can be run safely on this machine, or an empty text."""
    if not sys.platform.startswith("linux"):
        return "the sandbox of the fuzz needs Linux"
    for program in ("bash", "git"):
        if shutil.which(program) is None:
            return reason(program)
    if os.geteuid() == 0 or bubblewrap_works():
        return ""
    return reason("bwrap") if shutil.which("bwrap") is None else "bubblewrap makes no sandbox here"


@cache
def bubblewrap_works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    words = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
    return subprocess.run(words, capture_output=True, timeout=30).returncode == 0


def _give(base: Path, user: int) -> None:
    os.chown(base, user, user)
    for directory, names, files in os.walk(base):
        for name in (*names, *files):
            os.chown(os.path.join(directory, name), user, user, follow_symlinks=False)
