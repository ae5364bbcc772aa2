"""`python -m teamwright` in a process that is forked from one that has loaded the program already.

Loading takes nine tenths of the CPU time of a short command, and the tests start hundreds of them. The forked process
has its own arguments, environment, directory, streams and process id, and runs what `python -m teamwright` runs, from
the command line to the exit code. What a process is when Python starts (loaded modules, `PYTHON…` variables, its
command line as `ps` shows it) is not tested this way: such tests use `subprocess`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import io
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from typing import Any, NoReturn

COMMAND = [sys.executable, "-m", "teamwright"]
_SAFE_PATH = [sys.executable, "-P", "-m", "teamwright"]
_STARTED = {"preexec_fn", "pass_fds", "executable", "shell", "user", "group", "extra_groups", "umask", "process_group"}
"""Options of a process that only a started one can have."""
_READ_AT_START = re.compile(r"PYTHON(?!DONTWRITEBYTECODE)|LANG|LC_|LD_|HOUSE_MARK")
"""Variables that count when Python starts, and the mark by which a test finds its processes in `/proc/PID/environ`."""
_ENVIRONMENT = dict(os.environ)
"""The environment of the loaded process: no variable of a single test."""
_THE_SAME = (None, "C", "C.UTF-8")
"""Values of theirs that lead to the same streams."""
_ARGUMENTS = signature(subprocess.Popen._execute_child)


def popen(args: list[str], **options: Any) -> subprocess.Popen[Any]:
    """`subprocess.Popen`, where Teamwright is forked if possible."""
    if words := forkable(args, options):
        return Forked(words, **options)
    return subprocess.Popen(args, **options)


def forkable(args: list[str], options: Mapping[str, Any]) -> list[str]:
    """Return the arguments of a Teamwright process that may be forked instead of started; nothing for others."""
    words = [*COMMAND, *args[len(_SAFE_PATH) :]] if args[: len(_SAFE_PATH)] == _SAFE_PATH else args
    env = os.environ if options.get("env") is None else options["env"]
    differs = (name for name in {*env, *_ENVIRONMENT} if env.get(name) != _ENVIRONMENT.get(name))
    same = not any(_READ_AT_START.match(name) and env.get(name) not in _THE_SAME for name in differs)
    ours = sys.platform == "linux" and words[: len(COMMAND)] == COMMAND
    return words if ours and same and not _STARTED & options.keys() else []


def run(args: list[str], *, timeout: float, **options: Any) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` with both streams captured, where Teamwright is forked if possible."""
    given = options.pop("input", None)
    options |= {"stdin": subprocess.PIPE} if given is not None else {}
    with popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as process:
        try:
            out, err = process.communicate(given, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(args, process.returncode, out, err)


class Forked(subprocess.Popen[Any]):
    """A process whose parent is the loaded one, which says how it ended through a pipe."""

    def _execute_child(self, *args: Any) -> None:
        given = _ARGUMENTS.bind(self, *args).arguments
        ours, theirs = os.pipe()
        streams = [given["p2cread"], given["c2pwrite"], given["errwrite"]]
        streams = [number if stream == -1 else stream for number, stream in enumerate(streams)]
        start = {
            "args": list(given["args"])[len(COMMAND) :],
            "cwd": os.fspath(given["cwd"] or os.getcwd()),
            "env": dict(given["env"] or os.environ),
            "session": given["start_new_session"],
        }
        message = json.dumps(start).encode("utf-8", "surrogateescape")
        with _loaded() as connection:
            socket.send_fds(connection, [len(message).to_bytes(4)], [*streams, theirs])
            connection.sendall(message)
        os.close(theirs)
        self._status = ours
        self.pid = int(os.read(ours, 12))
        self._close_pipe_fds(*(given[n] for n in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")))

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        os.set_blocking(self._status, not wait_flags & os.WNOHANG)
        try:
            status = int(os.read(self._status, 12))
        except BlockingIOError:
            return 0, 0
        os.close(self._status)
        return self.pid, status

    def _internal_poll(self, _deadstate: int | None = None, *_: Any) -> int | None:
        if self.returncode is not None or not self._waitpid_lock.acquire(False):
            return self.returncode
        try:
            if self.returncode is None and (ended := self._try_wait(os.WNOHANG))[0]:
                self._handle_exitstatus(ended[1])
        finally:
            self._waitpid_lock.release()
        return self.returncode


@cache
def _server() -> str:
    """The address of the loaded process of this test process; it ends with it."""
    address = f"\0teamwright-tests-{os.getpid()}-{os.urandom(8).hex()}"
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    life, held = os.pipe()
    argv = [sys.executable, "-m", "tests.support.preloaded", str(listening.fileno()), str(life)]
    os.set_inheritable(held, False)
    subprocess.Popen(argv, pass_fds=[listening.fileno(), life], stdin=subprocess.DEVNULL, env=_ENVIRONMENT)
    listening.close()
    os.close(life)
    return address


def _loaded() -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(_server())
    return connection


# ── in the loaded process ────────────────────────────────────────────────────────────────────────────────────────


def _serve(listening: socket.socket, life: int) -> dict[str, Any]:
    """Fork for each connection until the tests end. Returns in the process that becomes the program."""
    waiting = select.poll()
    waiting.register(listening, select.POLLIN)
    waiting.register(life, select.POLLHUP)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if any(fd == life for fd, _ in waiting.poll()):
            os._exit(0)
        connection, _ = listening.accept()
        if os.fork() == 0:
            break
        connection.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    listening.close()
    os.close(life)
    size, streams, _, _ = socket.recv_fds(connection, 4, 4)
    with connection, connection.makefile("rb") as file:
        start = json.loads(file.read(int.from_bytes(size)).decode("utf-8", "surrogateescape"))
    *streams, status = streams
    pid = os.fork()
    if pid:
        _report(pid, status)
    os.close(status)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    for stream in streams:
        if stream > 2:
            os.close(stream)
    return start


def _report(pid: int, status: int) -> NoReturn:
    os.write(status, b"%12d" % pid)
    for fd in (0, 1, 2):
        os.close(fd)
    os.write(status, b"%12d" % os.waitpid(pid, 0)[1])
    os._exit(0)


def _become(start: dict[str, Any]) -> None:
    """Take over what a started process has: session, environment, directory, streams, signals, arguments."""
    if start["session"]:
        os.setsid()
        if os.isatty(0):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.environ.clear()
    os.environ.update(start["env"])
    os.chdir(start["cwd"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    source, out, err = (io.FileIO(fd, mode, closefd=False) for fd, mode in enumerate("rww"))
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(source), "utf-8", sys.stdin.errors)
    out, err = io.BufferedWriter(out), io.BufferedWriter(err)
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(out, "utf-8", sys.stdout.errors, line_buffering=os.isatty(1))
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(err, "utf-8", "backslashreplace", line_buffering=True)
    sys.argv = [program.__file__, *start["args"]]


def _run(main: Callable[[], object]) -> None:
    """Run the program to its exit code, without the freeing of all objects at the end of Python.

    It would copy each page of memory that the forked process shares with the loaded one.
    """
    codes: list[int] = []

    def end() -> None:
        with contextlib.suppress(OSError, ValueError):  # Python reports a stream that cannot be written
            sys.stdout.flush()
            sys.stderr.flush()
            if codes:
                os._exit(codes[0])

    atexit.register(end)  # the first that is registered is the last that runs, after all threads
    try:
        main()
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            codes.append(ended.code or 0)
        raise


def _load() -> None:
    """Import every module of the program, and keep the collector of garbage away from what that made."""
    for module in pkgutil.walk_packages(teamwright.__path__, "teamwright."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    gc.freeze()


if __name__ == "__main__":
    import gc
    import importlib
    import pkgutil

    import teamwright
    import teamwright.__main__ as program

    del sys.path[0]  # as the installed program, which imports nothing from where it is started

    _load()
    _become(_serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])))
    _run(program.main)
