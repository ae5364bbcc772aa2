"""`python -m teamwright`, and the program that the package installs."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line and end the process with its exit code. An interrupt counts from the first import on."""
    # What loading makes stays to the end: looking for garbage in it, then and once more at the exit, is a quarter of
    # what a short command costs.
    gc.set_threshold(25_000, 20, 50)
    try:
        from teamwright.ui.cli.main import main as run

        code = run()
    except KeyboardInterrupt:
        code = 130
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
