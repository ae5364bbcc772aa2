"""The texts of `--help` and `--version`, printed without click: `help.txt` is made from the commands.

`make generated` writes the file, and a test compares it. A narrow terminal, other arguments and closed streams go the
usual way. Depends on nothing.
"""

from __future__ import annotations

import os
import sys

from teamwright import __version__

HELP_FILE = os.path.join(os.path.dirname(__file__), "help.txt")

WIDTH = 80
"""The columns of the text. click fills at most as many, and fewer in a narrower terminal."""


def print_prepared(args: list[str]) -> bool:
    """Print the text for these arguments. Return False when there is none, or when it was not printed completely."""
    if os.environ.get("_TEAMWRIGHT_COMPLETE") or not _is_plain_stdout():
        return False
    try:
        if args in (["--version"], ["-V"]):
            text = f"teamwright {__version__}\n"
        elif args in (["--help"], ["-h"]) and _columns() >= WIDTH:
            with open(HELP_FILE, encoding="utf-8") as file:
                text = file.read()
        else:
            return False
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _is_plain_stdout() -> bool:
    """Return True when all standard streams are open and stdout can encode every text."""
    return None not in (sys.stdin, sys.stdout, sys.stderr) and sys.stdout.encoding.lower() in ("utf-8", "utf8")


def _columns() -> int:
    """Return the width of the terminal as `shutil.get_terminal_size` does, which takes longer to import."""
    try:
        columns = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        columns = 0
    if columns <= 0:
        try:
            columns = os.get_terminal_size(sys.stdout.fileno()).columns
        except (OSError, ValueError):
            columns = 0
    return columns if columns > 0 else WIDTH
