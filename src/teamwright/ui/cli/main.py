"""The entry point of the command line: it runs a command and turns every error into a message and an exit code.

Modules load when they are needed: `--help` and `--version` import only click, and a member process not even that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teamwright.protocol.errors import TeamwrightError

INTERRUPTED = 130

COMPLETION_VARIABLE = "_TEAMWRIGHT_COMPLETE"
"""The environment variable in which a completion script names its shell."""

MEMBER_FLAG = "--agent-id"
"""The first argument of a member process (see protocol.member_flags, which other runs need not load)."""

_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code of docs/reference/exit-codes.md. Never raises."""
    args = list(sys.argv[1:] if argv is None else argv)
    stdout_closed = sys.stdout is None
    _reopen_closed_streams()
    _replace_unencodable()
    flags = args[: args.index("--") if "--" in args else len(args)]
    debug = any(arg.partition("=")[0] == "--debug" for arg in flags)
    try:
        if stdout_closed:
            raise _no_stdout_error()
        if shell := os.environ.get(COMPLETION_VARIABLE):
            from teamwright.ui.cli.completion.completer import print_completions

            return print_completions(shell)
        if args and args[0].partition("=")[0] == MEMBER_FLAG:
            from teamwright.ui.member_process import run_member

            return run_member(args)
        code = _run_command(args)
        sys.stdout.flush()
    except BaseException as problem:
        if debug and not isinstance(problem, BrokenPipeError) and not _is_exit(problem):
            _show_traceback()
        return _report_problem(problem, args)
    return code if isinstance(code, int) else 0


def _run_command(args: list[str]) -> object:
    from teamwright.ui.cli.root import root

    with root.make_context("teamwright", args) as ctx:
        return root.invoke(ctx)


def _is_exit(problem: BaseException) -> bool:
    from click.exceptions import Exit

    return isinstance(problem, Exit)


def _report_problem(problem: BaseException, args: list[str]) -> int:
    """Print an error that ended the program, and return its exit code."""
    import click

    if isinstance(problem, BrokenPipeError):
        _discard_stdout()
        return 0
    if isinstance(problem, KeyboardInterrupt | click.Abort):
        return INTERRUPTED
    if isinstance(problem, OSError) and problem.errno in _DISK_FULL_ERRORS:
        _discard_stdout()
    if isinstance(problem, click.exceptions.Exit):
        return _flush(problem.exit_code, args)
    if isinstance(problem, SystemExit):
        return problem.code if isinstance(problem.code, int) else 1
    error = _to_error(problem, args)
    _add_home(error, _named_home(args))
    with contextlib.suppress(OSError):
        from teamwright.ui.display_text import clean

        sys.stderr.write(clean(error.render()) + "\n")
    return error.exit_code


def _discard_stdout() -> None:
    from teamwright.ui.display_text import discard_buffer  # not for --help

    discard_buffer(sys.stdout)


def _add_home(error: TeamwrightError, home: str | None) -> None:
    """Add the home of the command line to the commands that the error suggests."""
    if home is None:
        return
    from teamwright.storage.paths import command_with_home

    error.replace_advice(command_with_home(line, home) for line in error.do)


def _flush(code: int, args: list[str]) -> int:
    """Flush stdout and return the exit code."""
    try:
        sys.stdout.flush()
    except OSError as problem:
        return _report_problem(problem, args)
    return code


def _to_error(problem: BaseException, args: list[str]) -> TeamwrightError:
    from teamwright.protocol.errors import TeamwrightError

    if isinstance(problem, TeamwrightError):
        return problem
    from click import ClickException

    if isinstance(problem, ClickException):
        from teamwright.ui.cli.usage_errors import usage_error

        return usage_error(problem)
    if isinstance(problem, OSError) and problem.errno in _DISK_FULL_ERRORS:
        from teamwright.protocol.errors import StorageError

        return StorageError("disk-full", f"a write did not reach the disk: {problem.strerror}")
    from teamwright.session.command_start import crash

    return crash(problem, args, _named_home(args))


def _named_home(args: list[str]) -> str | None:
    """Return the home of the command line for the crash file, even when the command line has other errors."""
    home = _flag_value(args, "--home")
    return os.path.join(os.path.expanduser(_flag_value(args, "-C") or ""), os.path.expanduser(home)) if home else None


def _flag_value(args: list[str], flag: str) -> str | None:
    for position, arg in enumerate(args):
        if arg.startswith(f"{flag}="):
            return arg.removeprefix(f"{flag}=")
        if arg == flag:
            return args[position + 1] if position + 1 < len(args) else None
    return None


def _show_traceback() -> None:
    import traceback

    from teamwright.ui.display_text import clean

    with contextlib.suppress(OSError):
        sys.stderr.write(clean(traceback.format_exc()))


def _no_stdout_error() -> TeamwrightError:
    from teamwright.protocol.errors import UsageError

    return UsageError(
        "usage",
        "stdout is closed, and the answer goes there",
        do=["teamwright … >FILE", "teamwright … >/dev/null"],
        note="nothing was started",
    )


def _reopen_closed_streams() -> None:
    """Reopen a closed stdin, stdout or stderr as /dev/null. Otherwise the next opened file would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                opened = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this stream's
                setattr(sys, name, os.fdopen(opened, "w" if number else "r"))


def _replace_unencodable() -> None:
    """Let a terminal that cannot encode a character show a question mark instead of raising an error."""
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        if getattr(stream, "encoding", None) and stream.encoding.lower() not in ("utf-8", "utf8"):
            stream.reconfigure(errors="replace")
