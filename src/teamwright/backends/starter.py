"""The starter: a script that a terminal runs; it receives a launch over a socket and replaces itself with the program.

A bare interpreter runs it inside the terminal; it imports none of our modules and reads no setting. So neither
arguments nor environment pass through a shell, a command line or a file. The other end is `handover`.
"""

import contextlib
import json
import os
import signal
import socket
import sys


def main(address: str) -> int:
    """Receive the launch offered at this socket and become its program; returns only on failure."""
    with socket.socket(socket.AF_UNIX) as line:
        try:
            line.connect(address)
            line.sendall(b"%d\n" % os.getpid())
            with line.makefile("rb") as offered:
                payload = offered.read()
        except OSError:
            payload = b""
        if not payload:
            return 0  # the offering process is gone or withdrew the offer: no error is shown
        try:
            _exec(json.loads(payload))
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "strerror", None) or str(problem)
            where = getattr(problem, "filename", None)
            text = f"{reason}: {os.fsdecode(where)}" if where else reason
            sys.stderr.write(f"teamwright: {text.encode('ascii', 'backslashreplace').decode()}\n")
            with contextlib.suppress(OSError):
                line.sendall(text.encode("utf-8", "replace"))
    return 127


def _exec(launch: list[list[str]]) -> None:
    """Replace this process. The lists are directory, arguments, `KEY=VALUE`, kept names; texts are bytes as Latin-1, so
    any byte passes.
    """
    (cwd,), argv, variables, stay = ([text.encode("latin-1") for text in part] for part in launch)
    env = dict(pair.split(b"=", 1) for pair in variables)
    for key in stay:
        env.pop(key, None)
    env |= {key: os.environb[key] for key in stay if key in os.environb}
    os.chdir(cwd)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # the interpreter ignores them, and exec would hand that on
        signal.signal(ignored, signal.SIG_DFL)
    os.execve(argv[0], argv, env)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
