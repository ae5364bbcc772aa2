"""`python -m teamwright`, and the program that the package installs."""

from __future__ import annotations

import signal
import sys

from teamwright.ui import garbage_collector


def main() -> None:
    """Run the command line and end the process with its exit code. An interrupt counts from the first import on."""
    garbage_collector.prepare_loading()
    try:
        from teamwright.ui.cli.main import main as run

        code = run()
    except KeyboardInterrupt:
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the run is over: an interrupt could only break the leaving
    garbage_collector.freeze_at_exit()
    sys.exit(code)


if __name__ == "__main__":
    main()
