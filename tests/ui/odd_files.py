"""Starts of the program in directories whose files are not what they should be: `odd_files.py ROOT CASES`.

`CASES` is a JSON list of pairs: a kind, and the files that are of it, joined by `+`. Each start is a child of this
process, so that the program is imported once. Prints a JSON line for each: the case, the command, the exit code (or
`"hangs"`), and the end of what the program said.
"""

import ctypes
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import teamwright

LIMIT_S = 60
LONG = "x/" * 250_000


def listen(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)
        made.bind(path.name)


def sparse(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(3 << 30)


def closed(path: Path) -> None:
    path.mkdir()
    (path / "x.md").write_text("x")
    path.chmod(0o600)


def full_of(make: Callable[[Path], None]) -> Callable[[Path], None]:
    """A directory in which everything that may be looked for is odd too."""

    def made(path: Path) -> None:
        path.mkdir()
        for name in ("x.md", "SKILL.md", "settings.json", "agents", "skills", "commands", "HEAD", "config"):
            make(path / name)
        make(Path(os.fsdecode(os.fsencode(path) + b"/\xff\xfe")))

    return made


KINDS: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a directory": Path.mkdir,
    "a directory of pipes": full_of(os.mkfifo),
    "a directory of links to themselves": full_of(lambda path: path.symlink_to(path.name)),
    "a directory that cannot be entered": closed,
    "a file that cannot be read": lambda path: (path.write_text("x"), path.chmod(0))[1],
    "a very long file": sparse,
    "a file of NUL": lambda path: (path.write_bytes(b"\0" * 64), None)[1],
    "a file of other bytes": lambda path: (path.write_bytes(b"gitdir: \xff\xfe\n\xff = [\n"), None)[1],
    "a very long path": lambda path: (path.write_text(f"gitdir: {LONG}\n"), None)[1],
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to a name of other bytes": lambda path: os.symlink(b"\xff\xfe", os.fsencode(path)),
    "a link to a long path": lambda path: path.symlink_to(LONG[:4000]),
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link to its standard input": lambda path: path.symlink_to("/dev/stdin"),
    "a link to the root": lambda path: path.symlink_to("/"),
    "a socket": listen,
}


def main(root: Path, cases: list[tuple[str, str]]) -> None:
    for module in pkgutil.walk_packages(teamwright.__path__, "teamwright."):
        if module.name not in {"teamwright.__main__"}:
            with suppress(ImportError):
                importlib.import_module(module.name)
    forgo_reading_everything()
    script = root / "script.toml"
    script.write_text('[script]\nname = "s"\n[[agent."*".otherwise]]\nsay = "Done."\n')
    for case in cases:
        place = root / "odd"
        make(place, *case)
        for args in (["-p", "hi", "--model", f"scripted:{script}"], ["check"], ["doctor"]):
            code, said = start(args, place, root / "said")
            print(json.dumps({"case": case, "command": args[0], "code": code, "said": said}), flush=True)
        subprocess.run(["chmod", "-R", "u+rwx", str(place)], check=False, stderr=subprocess.DEVNULL)
        shutil.rmtree(place)


def make(place: Path, kind: str, file: str) -> None:
    """A repository with one commit, in which one file, or several joined by `+`, are of this kind."""
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    subprocess.run(["git", "-C", str(place), *who, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    for name in file.split("+"):
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        KINDS[kind](path)


def start(args: list[str], cwd: Path, said: Path) -> tuple[int | str, str]:
    """Run the program in a child; its exit code, and the end of what it said."""
    ended, held = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(cwd)
        streams = [os.open(os.devnull, os.O_RDONLY), os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)]
        for number, stream in enumerate((streams[0], streams[1], streams[1])):
            os.dup2(stream, number)
        os._exit(run(args))
    os.close(held)
    hangs = not select.select([ended], [], [], LIMIT_S)[0]
    os.close(ended)
    if hangs:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return "hangs" if hangs else os.waitstatus_to_exitcode(status), said.read_text(errors="replace")[-2000:]


def run(args: list[str]) -> int:
    from teamwright.ui.cli.main import main as program

    sys.argv = ["teamwright", *args]
    try:
        code = program()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def forgo_reading_everything() -> None:
    """A superuser of Linux goes without the right to read what its mode forbids."""
    if os.geteuid() != 0 or sys.platform != "linux":
        return
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    sets = (ctypes.c_uint32 * 6)()
    libc.capget(header, sets)
    sets[0] &= ~0b110  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
    libc.capset(header, sets)


if __name__ == "__main__":
    main(Path(sys.argv[1]), json.loads(sys.argv[2]))
