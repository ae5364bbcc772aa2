"""The entry point of `python -m teamwright` and of the installed command `teamwright`."""

from __future__ import annotations

import sys

from teamwright.ui.prepared_help import print_prepared


def main() -> None:
    """Run the command line and exit with its code. An interrupt during the first imports gives 130 too."""
    sys.exit(0 if print_prepared(sys.argv[1:]) else _run())


def _run() -> int:
    import signal

    from teamwright.processes.own_python import remove_project_modules

    remove_project_modules()
    from teamwright.ui import python_gc

    python_gc.prepare_loading()
    try:
        from teamwright.ui.cli.main import main as run

        code = run()
    except KeyboardInterrupt:
        code = 130
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt during the exit would only print a traceback
    python_gc.freeze_at_exit()
    return code


if __name__ == "__main__":
    main()
