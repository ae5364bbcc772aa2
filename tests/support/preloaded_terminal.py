"""`pexpect.spawn` of `python -m teamwright`, forked from a loaded process if it can be: see `preloaded`."""

import os
import subprocess
from typing import Any

import pexpect
from ptyprocess import PtyProcess

from tests.support import preloaded
from tests.support.waits import WAIT_S


def spawn(command: list[str], **options: Any) -> pexpect.spawn:
    """Start the program at a new terminal. `options` are those of `pexpect.spawn`."""
    options = {"encoding": "utf-8", "timeout": WAIT_S, **options}
    words = preloaded.forkable(command, options)
    first, *rest = words or command
    return (_Spawn if words else pexpect.spawn)(first, rest, **options)


class _Process(PtyProcess):
    process: subprocess.Popen[Any]

    def isalive(self) -> bool:
        code = self.process.wait() if self.flag_eof else self.process.poll()
        if code is None:
            return True
        self.terminated = True
        self.exitstatus, self.signalstatus = (code, None) if code >= 0 else (None, -code)
        return False

    def wait(self) -> int | None:
        self.process.wait()
        self.isalive()
        return self.exitstatus


class _Spawn(pexpect.spawn):
    def _spawnpty(self, args: list[Any], *, dimensions: tuple[int, int] | None = None, **options: Any) -> PtyProcess:
        ours, theirs = os.openpty()
        made = _Process(os.getpid(), ours)
        made.setwinsize(*dimensions or (24, 80))
        options = {"cwd": options["cwd"], "env": options["env"], "start_new_session": True}
        words = [os.fsdecode(arg) for arg in args]
        made.process = preloaded.Forked(words, stdin=theirs, stdout=theirs, stderr=theirs, **options)
        made.pid = made.process.pid
        os.close(theirs)
        return made
