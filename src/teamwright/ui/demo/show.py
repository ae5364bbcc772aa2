"""The demo as it runs: which repository, which model, the lines, the report, the footprint.

Everything real goes through an ordinary session. Knows `app`; reads no repository itself.
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
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

from teamwright.app.opening import open_session
from teamwright.app.report import Calls, report
from teamwright.app.repository import Repository, clone_bundle, differences, footprint, repository_at
from teamwright.app.result import Result
from teamwright.app.writing import require_writable, write_report
from teamwright.protocol.blocks import text_block
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.ui.demo.ask import ASK_S, run_asked
from teamwright.ui.demo.kill import audit_lines, run_killed
from teamwright.ui.demo.prompt import LIVE_PROMPT, SCRIPTED_PROMPT
from teamwright.ui.demo.screen import Screen, can_redraw
from teamwright.ui.demo.session import demo_options, team_of
from teamwright.ui.demo.words import (
    ASK_DENY_LINE,
    ASK_LINE,
    CAP_USD,
    KILL_LINE,
    Wish,
    head_lines,
    next_lines,
    tail_lines,
    tree_lines,
)
from teamwright.ui.garbage import loaded
from teamwright.ui.headless.wire import result_object
from teamwright.ui.printable import clean, json_text

PACE_MS = 150
"""Before each reply on a terminal, so that a person can follow."""

_STOPPED = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def show(wish: Wish) -> int:
    """Run the demo; the exit code. Raises UsageError, CannotStart, StorageError."""
    _refuse_together(wish)
    if wish.panes:
        wish = replace(wish, backend="tmux")
    if wish.model and not wish.yes:
        _confirm(wish.model)
    if wish.report is not None:
        require_writable(wish.report)
    with ExitStack() as stack:
        stack.enter_context(_terminated_like_interrupted())
        place, sample = _place(wish, stack)
        quiet = wish.output_format == "json"
        # The panes show who works; and beside them there is no room for a panel.
        panel = not quiet and not wish.panes and can_redraw(sys.stdout)
        screen = Screen(sys.stderr if quiet else sys.stdout, panel=panel)
        work = _show_killed if wish.kill else _show_asked if wish.ask else _show
        return asyncio.run(_watched(work(wish, place, screen, sample=sample), screen))


@contextmanager
def _terminated_like_interrupted() -> Generator[None]:
    """SIGTERM unwinds as Ctrl-C does, so that the temporary sample goes; while a run goes on it has handlers."""

    def unwind(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, unwind)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _place(wish: Wish, stack: ExitStack) -> tuple[Repository, bool]:
    """The repository that was named or that we stand in; outside git the shipped sample, unpacked for this run."""
    found = repository_at(wish.directory)
    if found is not None:
        return found, False
    top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="teamwright-"))) / "sample"
    bundle = stack.enter_context(resources.as_file(resources.files("teamwright.ui.demo") / "sample.bundle"))
    clone_bundle(bundle, top)
    made = repository_at(top)
    if made is None:
        raise UsageError("usage", "the sample repository is not there")
    return made, True


def _confirm(model: str) -> None:
    if not (sys.stdin and sys.stdin.isatty()):
        raise UsageError(
            "usage",
            "a real model costs money, and no user is present to confirm",
            do=["add --yes"],
            note="nothing was sent",
        )
    sys.stderr.write(
        f"This sends parts of the repository to {model} and costs at most {CAP_USD:.2f} USD. Go on? [y/N] "
    )
    sys.stderr.flush()
    if not sys.stdin.readline().strip().lower().startswith("y"):
        raise UsageError("usage", "not started", note="nothing was sent")


async def _watched(work: Coroutine[Any, Any, int], screen: Screen) -> int:
    """See it through. Raises TeamwrightError for a signal, the stream's OSError when nobody takes the lines."""
    task = asyncio.ensure_future(work)
    screen.on_failure = task.cancel
    caught: list[int] = []
    with _signals(lambda number: (caught.append(number), len(caught) == 1 and task.cancel())):
        try:
            return await task
        except asyncio.CancelledError:
            if screen.failed is not None:
                raise screen.failed from None
            if not caught:
                raise
        finally:
            screen.close()
    slug = _STOPPED[signal.Signals(caught[0])]
    what = f"{slug}: every member has ended, nothing is left running"
    raise TeamwrightError(slug, what, do=["teamwright demo"])


def _refuse_together(wish: Wish) -> None:
    """Raises UsageError for flags that do not go with an act."""
    act = "--kill" if wish.kill else "--ask" if wish.ask else "--panes" if wish.panes else ""
    given = {
        "--ask": wish.ask if wish.kill else None,
        "--model": wish.model if wish.kill or wish.ask else None,
        "--report": wish.report if wish.kill or wish.ask else None,
        "--panes": wish.panes or None if act != "--panes" else None,
        "--backend": wish.backend if act or wish.panes else None,
        "--within": None if wish.ask else wish.within,
    }
    other = [name for name, value in given.items() if value is not None]
    if other and other[0] == "--within":
        raise UsageError("usage", "--within is for --ask", do=["teamwright demo --ask"], note="nothing was started")
    if other:
        raise UsageError(
            "usage", f"{act} goes without {other[0]}", do=[f"teamwright demo {act}"], note="nothing was started"
        )


async def _show_asked(wish: Wish, place: Repository, screen: Screen, *, sample: bool) -> int:
    """A request that a second terminal answers; 0 when the team ended well, whatever the answer was."""
    quiet = wish.output_format == "json"
    pace_ms = wish.pace if wish.pace is not None else (PACE_MS if not quiet and sys.stdout.isatty() else 0)
    limit = ASK_S if wish.within is None else wish.within
    about = ASK_LINE.format(limit) if wish.ask == "wait" else ASK_DENY_LINE
    for line in [*head_lines(wish, place, pace_ms, sample=sample)[:-1], about, ""]:
        screen.line(line)
    before, calls = footprint(place.top), Calls()
    result, asked = await run_asked(wish, place, screen, calls, pace_ms)
    screen.close()
    after = None if before is None else footprint(place.top)
    changed = None if before is None or after is None else differences(before, after)
    for line in [*tail_lines(result, calls, changed), *asked.lines()]:
        screen.line(line)
    screen.line(f"log       teamwright log {shlex.quote(team_of(place))}")
    screen.line("again     teamwright demo --ask")
    if quiet:
        sys.stdout.write(json_text({**asked.as_json(), **result_object(result)}) + "\n")
    return _code(result, screen)


def _code(result: Result, screen: Screen) -> int:
    """The exit code, once all is said. Raises the stream's OSError when nobody took the lines."""
    if screen.failed is not None:
        raise screen.failed
    if result.error is not None:
        sys.stderr.write(clean(result.error.render()) + "\n")
    return result.exit_code


async def _show_killed(wish: Wish, place: Repository, screen: Screen, *, sample: bool) -> int:
    """The demo in processes that are killed; 0 when nothing was lost and the report is the same."""
    pace_ms = wish.pace if wish.pace is not None else PACE_MS
    for line in [*head_lines(wish, place, pace_ms, sample=sample)[:-1], KILL_LINE, ""]:
        screen.line(line)
    before = footprint(place.top)
    done = await run_killed(place, wish.home, pace_ms, screen)
    screen.close()
    after = None if before is None else footprint(place.top)
    changed = None if before is None or after is None else differences(before, after)
    for line in ["", *clean(done.text).splitlines(), *audit_lines(done), "", *tree_lines(changed)]:
        screen.line(line)
    screen.line(f"log       teamwright log {shlex.quote(team_of(place))}")
    screen.line("again     teamwright demo --kill")
    if wish.output_format == "json":
        body = {"kills": done.kills, "clean": done.clean, "same_numbers": done.same, "numbers": done.numbers}
        rows = done.audit.rows() if done.audit is not None else []
        sys.stdout.write(json_text({**body, "audit": rows, "result": done.text}) + "\n")
    if screen.failed is not None:
        raise screen.failed
    return 0 if done.clean else 1


async def _show(wish: Wish, place: Repository, screen: Screen, *, sample: bool) -> int:
    quiet = wish.output_format == "json"
    pace_ms = wish.pace if wish.pace is not None else (PACE_MS if not quiet and sys.stdout.isatty() else 0)
    for line in head_lines(wish, place, pace_ms, sample=sample):
        screen.line(line)
    before = footprint(place.top)
    calls = Calls()
    result = await _session(wish, place, screen, calls, pace_ms)
    screen.close()
    after = None if before is None else footprint(place.top)
    changed = None if before is None or after is None else differences(before, after)
    for line in tail_lines(result, calls, changed):
        screen.line(line)
    if wish.report is not None:
        front = f"generated by teamwright demo, {'model ' + wish.model if wish.model else 'scripted'}"
        title = f"{place.name} @ {place.commit or 'no commit'}"
        write_report(wish.report, report(result, calls, front=front, title=title))
    for line in next_lines(wish, team_of(place), result, calls):
        screen.line(line)
    if quiet:
        sys.stdout.write(json_text(result_object(result)) + "\n")
    return _code(result, screen)


@contextmanager
def _signals(on_signal: Callable[[int], object]) -> Generator[None]:
    """SIGINT and SIGTERM go to this function while the block runs."""
    loop = asyncio.get_running_loop()
    for number in _STOPPED:
        loop.add_signal_handler(number, on_signal, int(number))
    try:
        yield
    finally:
        for number in _STOPPED:
            loop.remove_signal_handler(number)


async def _session(wish: Wish, place: Repository, screen: Screen, calls: Calls, pace_ms: int) -> Result:
    options = demo_options(place, home=wish.home, pace_ms=pace_ms, model=wish.model)
    async with open_session(replace(options, backend=wish.backend)) as session:
        loaded()
        session.outside.end = partial(os.kill, os.getpid(), signal.SIGTERM)

        told = set[str]()

        def note(_number: int, event: Any) -> None:
            calls.note(event)
            screen.event(event)
            if wish.backend and isinstance(event, Notice) and event.member != LEAD and event.level == "info":
                where = event.text.removeprefix(f"{event.member}: ")
                if where not in told:
                    told.add(where)
                    screen.line(f"members   {where}")

        session.log.subscribe(note, live=False)
        await session.set_aside(team_of(place))
        prompt = LIVE_PROMPT if wish.model else SCRIPTED_PROMPT
        result = await session.run([text_block(prompt.replace("{team}", team_of(place)))])
        await session.goodbye(keep=not result.ok)
        return result
