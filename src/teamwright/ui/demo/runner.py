"""The run of the demo: the repository, the model, the lines, the report, and the comparison of the tree.

The demo runs an ordinary session.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Coroutine, Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.saved.run_repository import Repository, clone_bundle, differences, footprint, repository_at
from teamwright.session.open_session import open_session
from teamwright.session.report_file import require_writable, write_report
from teamwright.session.result import Result
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.demo.ask_demo import ANSWER_TIMEOUT_S, run_ask_demo
from teamwright.ui.demo.demo import (
    ASK_DENY_LINE,
    ASK_LINE,
    CAP_USD,
    KILL_LINE,
    LIVE_PROMPT,
    SCRIPTED_PROMPT,
    DemoOptions,
    demo_options,
    demo_team_name,
    head_lines,
    next_lines,
    tail_lines,
    tree_lines,
)
from teamwright.ui.demo.demo_screen import DemoScreen, can_redraw
from teamwright.ui.demo.recovery_demo import audit_lines, run_recovery_demo
from teamwright.ui.display_text import clean, json_text
from teamwright.ui.headless.run_output import result_object
from teamwright.ui.python_gc import freeze_loaded
from teamwright.ui.terminal.styles import configured_terminal
from teamwright.views.run_report import CallCollector, report

PACE_MS = 150
"""Milliseconds before each reply on a terminal, so that a person can follow."""

_SIGNAL_SLUGS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def run_demo(options: DemoOptions) -> int:
    """Run the demo and return the exit code. Raises UsageError, CannotStart, StorageError."""
    _refuse_contradictions(options)
    if options.panes:
        options = replace(options, backend="tmux")
    if options.model and not options.yes:
        _confirm_cost(options.model)
    if options.report is not None:
        require_writable(options.report)
    with ExitStack() as stack:
        stack.enter_context(_unwind_on_sigterm())
        place, sample = _open_repository(options, stack)
        quiet = options.output_format == "json"
        # The panes show the members, and leave no rows for a panel.
        panel = (
            not quiet and not options.panes and can_redraw(sys.stdout, configured_terminal(resolve_home(options.home)))
        )
        screen = DemoScreen(sys.stderr if quiet else sys.stdout, panel=panel)
        work = _show_recovery_demo if options.kill else _show_ask_demo if options.ask else _show_plain_demo
        return asyncio.run(_run_with_signals(work(options, place, screen, sample=sample), screen))


@contextmanager
def _unwind_on_sigterm() -> Generator[None]:
    """Turn SIGTERM into an exception, so that the temporary sample is removed. A run installs separate handlers."""

    def unwind(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _open_repository(options: DemoOptions, stack: ExitStack) -> tuple[Repository, bool]:
    """Return the named or current repository; outside git the shipped sample, unpacked for this run."""
    found = repository_at(options.directory)
    if found is not None:
        return found, False
    top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="teamwright-"))) / "sample"
    bundle = stack.enter_context(resources.as_file(resources.files("teamwright.ui.demo") / "sample.bundle"))
    clone_bundle(bundle, top)
    repository = repository_at(top)
    if repository is None:
        raise UsageError("usage", "the sample repository is not there")
    return repository, True


def _confirm_cost(model: str) -> None:
    if not (sys.stdin and sys.stdin.isatty()):
        raise UsageError(
            "usage",
            "a real model costs money, and no user is present to confirm",
            do=["add --yes"],
            note="nothing was sent",
        )
    sys.stderr.write(
        f"This sends parts of the repository to {model} and costs at most {CAP_USD:.2f} USD. Continue? [y/N] "
    )
    sys.stderr.flush()
    if not sys.stdin.readline().strip().lower().startswith("y"):
        raise UsageError("usage", "not started", note="nothing was sent")


async def _run_with_signals(work: Coroutine[Any, Any, int], screen: DemoScreen) -> int:
    """Run until the end. Raises TeamwrightError for a signal, and OSError when the output stream fails."""
    task = asyncio.ensure_future(work)
    watching = asyncio.create_task(_cancel_after_failure(screen, task))
    caught: list[int] = []
    with _handle_signals(lambda number: (caught.append(number), len(caught) == 1 and task.cancel())):
        try:
            return await task
        except asyncio.CancelledError:
            if screen.failed is not None:
                raise screen.failed from None
            if not caught:
                raise
        finally:
            watching.cancel()
            screen.close()
    slug = _SIGNAL_SLUGS[signal.Signals(caught[0])]
    what = f"{slug}: every member has ended, nothing is left running"
    raise TeamwrightError(slug, what, do=["teamwright demo"])


async def _cancel_after_failure(screen: DemoScreen, task: asyncio.Future[int]) -> None:
    """Cancel the task once the output stream failed."""
    await screen.write_failed.wait()
    task.cancel()


def _refuse_contradictions(options: DemoOptions) -> None:
    """Raise UsageError for flags that contradict each other."""
    act = "--kill" if options.kill else "--ask" if options.ask else "--panes" if options.panes else ""
    contradicting_flags = {
        "--ask": options.ask if options.kill else None,
        "--model": options.model if options.kill or options.ask else None,
        "--report": options.report if options.kill or options.ask else None,
        "--panes": options.panes or None if act != "--panes" else None,
        "--backend": options.backend if act or options.panes else None,
        "--within": None if options.ask else options.within,
    }
    other = [name for name, value in contradicting_flags.items() if value is not None]
    if other and other[0] == "--within":
        raise UsageError("usage", "--within is for --ask", do=["teamwright demo --ask"], note="nothing was started")
    if other:
        raise UsageError(
            "usage", f"{act} goes without {other[0]}", do=[f"teamwright demo {act}"], note="nothing was started"
        )


async def _show_ask_demo(options: DemoOptions, repository: Repository, screen: DemoScreen, *, sample: bool) -> int:
    """Run `--ask`. Returns 0 when the team ended well, for any answer."""
    quiet = options.output_format == "json"
    pace_ms = options.pace if options.pace is not None else (PACE_MS if not quiet and sys.stdout.isatty() else 0)
    limit = ANSWER_TIMEOUT_S if options.within is None else options.within
    about = ASK_LINE.format(limit) if options.ask == "wait" else ASK_DENY_LINE
    for line in [*head_lines(options, repository, pace_ms, sample=sample)[:-1], about, ""]:
        screen.show_line(line)
    before = footprint(repository.top)
    calls = CallCollector()
    result, ask_demo = await run_ask_demo(options, repository, screen, calls, pace_ms)
    screen.close()
    after = None if before is None else footprint(repository.top)
    changed = None if before is None or after is None else differences(before, after)
    for line in [*tail_lines(result, calls, changed), *ask_demo.lines()]:
        screen.show_line(line)
    screen.show_line(f"log       teamwright log {shlex.quote(demo_team_name(repository))}")
    screen.show_line("again     teamwright demo --ask")
    if quiet:
        sys.stdout.write(json_text({**ask_demo.as_json(), **result_object(result)}) + "\n")
    return _code(result, screen)


def _code(result: Result, screen: DemoScreen) -> int:
    """Return the exit code after all output. Raises OSError when the output stream failed."""
    if screen.failed is not None:
        raise screen.failed
    if result.error is not None:
        sys.stderr.write(clean(result.error.render()) + "\n")
    return result.exit_code


async def _show_recovery_demo(options: DemoOptions, repository: Repository, screen: DemoScreen, *, sample: bool) -> int:
    """Run `--kill`. Returns 0 when no record was lost and the report is the same."""
    pace_ms = options.pace if options.pace is not None else PACE_MS
    for line in [*head_lines(options, repository, pace_ms, sample=sample)[:-1], KILL_LINE, ""]:
        screen.show_line(line)
    before = footprint(repository.top)
    done = await run_recovery_demo(repository, options.home, pace_ms, screen)
    screen.close()
    after = None if before is None else footprint(repository.top)
    changed = None if before is None or after is None else differences(before, after)
    for line in ["", *clean(done.text).splitlines(), *audit_lines(done), "", *tree_lines(changed)]:
        screen.show_line(line)
    screen.show_line(f"log       teamwright log {shlex.quote(demo_team_name(repository))}")
    screen.show_line("again     teamwright demo --kill")
    if options.output_format == "json":
        body = {"kills": done.kills, "clean": done.is_clean, "same_numbers": done.same_numbers, "numbers": done.numbers}
        rows = done.audit.rows() if done.audit is not None else []
        sys.stdout.write(json_text({**body, "audit": rows, "result": done.text}) + "\n")
    if screen.failed is not None:
        raise screen.failed
    return 0 if done.is_clean else 1


async def _show_plain_demo(options: DemoOptions, repository: Repository, screen: DemoScreen, *, sample: bool) -> int:
    quiet = options.output_format == "json"
    pace_ms = options.pace if options.pace is not None else (PACE_MS if not quiet and sys.stdout.isatty() else 0)
    for line in head_lines(options, repository, pace_ms, sample=sample):
        screen.show_line(line)
    before = footprint(repository.top)
    calls = CallCollector()
    result = await _run_session(options, repository, screen, calls, pace_ms)
    screen.close()
    after = None if before is None else footprint(repository.top)
    changed = None if before is None or after is None else differences(before, after)
    for line in tail_lines(result, calls, changed):
        screen.show_line(line)
    if options.report is not None:
        front = f"generated by teamwright demo, {'model ' + options.model if options.model else 'scripted'}"
        title = f"{repository.name} @ {repository.commit or 'no commit'}"
        write_report(options.report, report(result, calls, front=front, title=title))
    for line in next_lines(options, demo_team_name(repository), result, calls):
        screen.show_line(line)
    if quiet:
        sys.stdout.write(json_text(result_object(result)) + "\n")
    return _code(result, screen)


@contextmanager
def _handle_signals(on_signal: Callable[[int], object]) -> Generator[None]:
    """Call the function for SIGINT and SIGTERM while the block runs."""
    loop = asyncio.get_running_loop()
    for number in _SIGNAL_SLUGS:
        loop.add_signal_handler(number, on_signal, int(number))
    try:
        yield
    finally:
        for number in _SIGNAL_SLUGS:
            loop.remove_signal_handler(number)


async def _run_session(
    wish: DemoOptions, repository: Repository, screen: DemoScreen, calls: CallCollector, pace_ms: int
) -> Result:
    options = demo_options(repository, home=wish.home, pace_ms=pace_ms, model=wish.model)
    end = partial(os.kill, os.getpid(), signal.SIGTERM)
    async with open_session(replace(options, backend=wish.backend), end) as session:
        freeze_loaded()

        locations = set[str]()

        def note(_number: int, event: Any) -> None:
            calls.add_event(event)
            screen.show_event(event)
            if wish.backend and isinstance(event, Notice) and event.member != LEAD and event.level == "info":
                where = event.text.removeprefix(f"{event.member}: ")
                if where not in locations:
                    locations.add(where)
                    screen.show_line(f"members   {where}")

        session.log.subscribe(note, live=False)
        await session.archive_team(demo_team_name(repository))
        prompt = LIVE_PROMPT if wish.model else SCRIPTED_PROMPT
        result = await session.run([text_block(prompt.replace("{team}", demo_team_name(repository)))])
        await session.finish(keep=not result.ok)
        return result
