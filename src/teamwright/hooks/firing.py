"""Firing: all hooks of an event run at once, and what they say is put together.

A command is a process in a group of its own; a function of the program is called.

A hook that fails, hangs, is missing or prints garbage is told once and counts for nothing; the work goes on. Knows
the book, processes and how output is read. Does not know what an event means to whoever fires it.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from teamwright.hooks.book import Function, Hook, HookBook
from teamwright.hooks.outcome import NOTHING, Outcome, merged, outcome_of, read_outcome
from teamwright.protocol.values import dataclass
from teamwright.storage.output import Output
from teamwright.storage.processes.process import Command, Process, finish
from teamwright.storage.processes.records import ProcessRecords, Purpose

INSIDE = "TEAMWRIGHT_INSIDE_HOOKS"
"""Variable with the marks of the hooks that a process runs inside of: a session that a hook starts runs all others."""

OUTPUT_MOST = 200_000
"""Characters of a hook's output that are read."""

GRACE_S = 1.0
"""How long a hook that is ended may take to wind up before it is killed."""

CLOSE_S = 5.0
"""How long the end of a session waits for hooks that nobody waits for."""


@dataclass(slots=True)
class _Given:
    """What hooks of one event are told: as it is for functions, as JSON for commands, made when one is there."""

    payload: Mapping[str, Any]
    _content: bytes = b""

    @property
    def content(self) -> bytes:
        if not self._content:
            text = json.dumps(self.payload, ensure_ascii=False, default=str)
            self._content = text.encode("utf-8", "replace")
        return self._content


@dataclass(frozen=True, slots=True)
class Place:
    """Where hooks run: the project, the whole environment of a hook, the shell; `records` note what runs."""

    project: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    shell: str = "/bin/sh"
    records: ProcessRecords | None = None


def _silent(text: str, level: str) -> None:
    """Nobody is told."""


@dataclass(slots=True)
class Hooks:
    """The hooks of one session. `tell` says something to people, with its level: info or warning."""

    book: HookBook
    place: Place
    tell: Callable[[str, str], None] = _silent
    _told: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _detached: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def wants(self, *events: str) -> bool:
        """Whether any hook is for one of these events: without one nothing need be prepared."""
        return self.book.has(*events)

    async def fire(
        self, event: str, payload: Mapping[str, Any], subjects: tuple[str, ...] = ("",), cwd: Path | None = None
    ) -> Outcome:
        """Run what matches and wait for it. Raises nothing but `CancelledError`; then no hook is left running."""
        found = self.book.matching(event, subjects)
        if not found:
            return NOTHING
        given = _Given({**payload, "hook_event_name": event})
        if len(found) == 1 and not found[0].detached:
            return self._heard(await self._run(found[0], given, cwd))
        waited: list[Hook] = []
        for hook in found:
            if hook.detached:
                self._keep(self._unheard(hook, given, cwd), f"hook of {event}")
            else:
                waited.append(hook)
        if not waited:
            return NOTHING
        async with asyncio.TaskGroup() as together:
            running = [together.create_task(self._run(hook, given, cwd)) for hook in waited]
        return self._heard(merged(one.result() for one in running))

    def _heard(self, outcome: Outcome) -> Outcome:
        for message in outcome.messages:
            self.tell(message, "info")
        return outcome

    def later(self, firing: Coroutine[Any, Any, object], what: str) -> None:
        """Let something run that nobody waits for; the end of the session waits a little for it."""

        async def alone() -> None:
            await firing

        self._keep(alone(), what)

    async def close(self) -> None:
        """Wait for what nobody waited for, then end it."""
        if self._detached:
            await asyncio.wait(self._detached, timeout=CLOSE_S)
        for task in list(self._detached):
            task.cancel()
        if self._detached:
            await asyncio.wait(self._detached, timeout=CLOSE_S)

    def _keep(self, running: Coroutine[Any, Any, None], what: str) -> None:
        task = asyncio.get_running_loop().create_task(running, name=what)
        self._detached.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._detached.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self.tell(f"{task.get_name()}: {type(problem).__name__}: {problem}", "warning")

    async def _unheard(self, hook: Hook, given: _Given, cwd: Path | None) -> None:
        await self._run(hook, given, cwd)

    async def _run(self, hook: Hook, given: _Given, cwd: Path | None) -> Outcome:
        try:
            if hook.function is not None:
                outcome = await _called(hook, hook.function, given.payload)
            else:
                # What was trusted of a repository is what its command names from the root: it runs there.
                theirs = Path(hook.source).is_relative_to(self.place.project) if hook.source else False
                place = cwd if cwd is not None and cwd.is_dir() and not theirs else self.place.project
                outcome = await self._process(hook, given.content, place)
        except (OSError, ValueError) as problem:
            outcome = Outcome(trouble=f"it could not be started: {problem}")
        if outcome.trouble and (hook.event, hook.command) not in self._told:
            self._told.add((hook.event, hook.command))
            command = hook.command.split("\n", 1)[0][:100]
            self.tell(f"a hook of {hook.event} counts for nothing ({command}): {outcome.trouble}", "warning")
        return outcome

    async def _process(self, hook: Hook, given: bytes, cwd: Path) -> Outcome:
        above, mark = self.place.env.get(INSIDE, ""), _mark(hook)
        if mark in above.split():
            return Outcome(trouble="it is what started this session, and is not run inside itself")
        output, errors = Output(OUTPUT_MOST), Output(OUTPUT_MOST)
        command = Command(
            (self.place.shell, "-c", hook.command),
            cwd,
            {**self.place.env, "PWD": str(cwd), INSIDE: f"{above} {mark}".strip()},
            self.place.records,
            Purpose(call=f"hook {hook.event}"),
            given,
        )
        process = Process.start(command, output, errors)
        try:
            in_time = await finish(process, timeout_s=hook.timeout_s, grace_s=GRACE_S)
        finally:
            process.close()
        if not in_time:
            return Outcome(trouble=f"it was ended after {hook.timeout_s:g} s")
        if output.is_cut:
            return Outcome(trouble=f"it printed {output.total:,} bytes, more than is read")
        code = process.exit_code
        return read_outcome(hook.event, -9 if code is None else code, output.text(), errors.text())


async def _called(hook: Hook, function: Function, payload: Mapping[str, Any]) -> Outcome:
    """A function of the program; a mistake in it counts for nothing, like that of a command."""
    try:
        said = function(payload)
        if inspect.isawaitable(said):
            async with asyncio.timeout(hook.timeout_s):
                said = await said
    except TimeoutError:
        return Outcome(trouble=f"it was ended after {hook.timeout_s:g} s")
    except Exception as problem:
        return Outcome(trouble=f"it raised {type(problem).__name__}: {problem}")
    return outcome_of(hook.event, said)


def _mark(hook: Hook) -> str:
    return hashlib.sha256(f"{hook.event} {hook.command}".encode("utf-8", "replace")).hexdigest()[:16]


def no_hooks() -> Hooks:
    """For whoever has none."""
    return Hooks(HookBook(), Place(Path()))
