"""`python -m teamwright`, and the program that the package installs."""

from __future__ import annotations

import sys

from teamwright.ui.cli.main import main as run


def main() -> None:
    """Run the command line and end the process with its exit code."""
    sys.exit(run())


if __name__ == "__main__":
    main()
