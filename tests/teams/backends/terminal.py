"""A terminal for tests: a program with the subcommands of one, that really opens pseudo-terminals and runs in them.

Run as a script: `terminal.py FOLDER open [--mark TEXT] [--hold] [--tell FIFO] -- ARGV…`, `list`, `close ID`,
`has MARK`. What it runs gets the environment of the terminal, which has things in it that nobody wants.
"""

import contextlib
import json
import os
import pty
import select
import signal
import sys
from pathlib import Path

OF_THE_TERMINAL = {"PATH": os.defpath, "TERM": "xterm-test", "SERVER_SECRET": "sk-server", "PYTHONPATH": "/nonexistent"}


def main(folder, word, *rest):
    panes = Path(folder)
    match word:
        case "open":
            flags, argv = list(rest[: rest.index("--")]), list(rest[rest.index("--") + 1 :])
            print(opened(panes, flags, argv))
        case "list":
            print(json.dumps(listed(panes)))
        case "close":
            row = json.loads((panes / f"{rest[0]}.json").read_text())
            with contextlib.suppress(ProcessLookupError):  # it has ended, and its pane is kept
                os.kill(row["pid"], signal.SIGHUP)
            (panes / f"{rest[0]}.json").unlink()
        case "has":
            return 0 if any(rest[0] in row["mark"] for row in listed(panes)) else 1
    return 0


def listed(panes):
    """What each pane is; one may be closed at this very moment."""
    rows = []
    for path in sorted(panes.glob("*.json")):
        with contextlib.suppress(FileNotFoundError):
            rows.append(json.loads(path.read_text()))
    return rows


def opened(panes, flags, argv):
    """The id of a new pane; a process that stays behind holds its terminal."""
    id = str(len(list(panes.iterdir())) + 7)
    mark = flags[flags.index("--mark") + 1] if "--mark" in flags else ""
    ready, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        screen, theirs = pty.openpty()
        device = os.ttyname(theirs)
        pid = os.fork()
        if pid == 0:
            os.login_tty(theirs)
            os.execve(argv[0], argv, OF_THE_TERMINAL)
        os.close(theirs)
        held, was = panes / f"{id}.json", panes / f"{id}.was"
        was.write_text(json.dumps({"pane_id": int(id), "pid": pid, "tty_name": device, "mark": mark, "focused": False}))
        os.link(was, held)  # whole from its first moment on
        for descriptor in (0, 1, 2, tell):
            os.close(descriptor)
        hold(screen)
        os.waitpid(pid, 0)
        if "--hold" not in flags:
            held.unlink(missing_ok=True)
        if "--tell" in flags:
            Path(flags[flags.index("--tell") + 1]).write_text("closed")
        os._exit(0)
    os.close(tell)
    select.select([ready], [], [], 120)
    return id


def hold(screen):
    while True:
        try:
            if not os.read(screen, 65536):
                return
        except OSError:
            return


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
