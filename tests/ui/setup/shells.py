"""Real shells for tests of completion: a bash that answers by its own function, and both at a terminal."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect

from tests.support.waits import WAIT_S

SHOW = "\x18\x07"
"""Ctrl-X Ctrl-G: our key that writes the line as it stands into a file."""


def program(directory: Path) -> Path:
    """A directory for PATH that has `teamwright`."""
    directory.mkdir(exist_ok=True)
    file = directory / "teamwright"
    file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m teamwright "$@"\n')
    file.chmod(0o755)
    return directory


def environment(place: Path) -> dict[str, str]:
    return os.environ | {"PATH": f"{program(place / 'bin')}:{os.environ['PATH']}", "TERM": "dumb", "LC_ALL": "C.UTF-8"}


def bash_offers(line: str, place: Path, cwd: Path, **env: str) -> list[str]:
    """What bash has for the end of this line: the words of COMPREPLY, by the function that is installed."""
    word = line[max(map(line.rfind, " =:@")) + 1 :]
    code = (
        'eval "$(teamwright completion bash)"; complete -p teamwright >/dev/null || exit 9; '
        'COMP_LINE=$1 COMP_POINT=${#1}; _teamwright_completion teamwright "$2" x; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", line, word],
        cwd=cwd,
        env=environment(place) | env,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [word for word in done.stdout.splitlines() if word]


class Typed:
    """A shell at a terminal, in which somebody types."""

    def __init__(self, shell: pexpect.spawn, file: Path) -> None:
        self.shell, self.file = shell, file
        self.count = 0

    def completes(self, text: str) -> str:
        """The line after this text and a Tab; it is then thrown away."""
        self.shell.send(text + "\t")
        self.shell.send(SHOW)
        self.count += 1
        self.shell.expect_exact(f"<shown {self.count}>")
        line = self.file.read_text()
        self.shell.send("\x15")  # Ctrl-U
        return line.removesuffix("\n")


@contextmanager
def at_terminal(kind: str, place: Path, cwd: Path, **env: str) -> Iterator[Typed]:
    """bash or zsh, without anybody's own files, with our script."""
    file = place / "line"
    bash = (
        "bind 'set bell-style none'; bind 'set enable-bracketed-paste off'; "
        f"shown() {{ printf '%s\\n' \"$READLINE_LINE\" >{file}; printf '<sho''wn %s>' $((++n)); }}; "
        "bind -x '\"\\C-x\\C-g\": shown'"
    )
    zsh = (
        f"shown() {{ print -r -- \"$BUFFER\" >{file}; printf '<sho''wn %s>' $((++n)); }}; "
        "zle -N shown; bindkey -e; bindkey '^X^G' shown; unsetopt zle_bracketed_paste beep"
    )
    command = {"bash": ["--norc", "--noprofile"], "zsh": ["-f"]}[kind]
    shell = pexpect.spawn(
        kind,
        command,
        cwd=str(cwd),
        env=environment(place) | env,
        encoding="utf-8",
        timeout=WAIT_S,
        dimensions=(40, 200),
    )
    try:
        shell.sendline("PS1='%% '; PS1='> '; n=0; cd " + shlex.quote(str(cwd)))
        shell.sendline({"bash": bash, "zsh": zsh}[kind])
        shell.sendline(f'eval "$(teamwright completion {kind})"; echo rea""dy')
        shell.expect_exact("ready")
        yield Typed(shell, file)
    finally:
        shell.close(force=True)
