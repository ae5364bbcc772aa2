"""Running of hooks: all hooks of an event run at once, and their outcomes are merged.

A command is a process in its own group; a function of the program is called. `CallAction` calls models and servers.

A hook that fails, hangs, is missing or prints garbage is reported once and ignored; the agent continues. Depends on the
hook index, processes and hook outcomes.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.hooks.hook_actions import HttpLimits, HttpRequest
from teamwright.hooks.hook_definitions import ENV_FILE_EVENTS, ENV_FILE_VARIABLE, HookFunction, HookSpec
from teamwright.hooks.hook_index import HookIndex
from teamwright.hooks.hook_outcome import NO_OUTCOME, HookOutcome, merge_outcomes, parse_returned
from teamwright.processes.commands import Confinement, ProcessCommand
from teamwright.processes.process_records import ProcessPurpose, ProcessRecords
from teamwright.processes.program_environment import own_program_start
from teamwright.protocol.errors import StorageError
from teamwright.protocol.events import HookEnded
from teamwright.protocol.ids import LEAD
from teamwright.protocol.program_log import log_failure
from teamwright.protocol.time_limit import time_limit
from teamwright.protocol.trace_context import TRACEPARENT

if TYPE_CHECKING:
    from teamwright.hooks.hook_process import HookProcess
    from teamwright.hooks.session_variables import SessionVariables

INSIDE_VARIABLE = "TEAMWRIGHT_INSIDE_HOOKS"
"""Variable with the marks of the hooks in which a process runs: a session that a hook starts runs all other hooks."""

CLOSE_S = 5.0
"""Seconds that the end of a session waits for background hooks."""


class _HookInput(Struct):
    """The input of an event's hooks: a mapping for functions, JSON for commands, encoded on demand."""

    payload: Mapping[str, Any]
    deliver_later: Callable[[str, bool], None]
    env_file: str = ""
    """The file for variables of later commands; empty for events without one."""
    _content: bytes = b""

    @property
    def content(self) -> bytes:
        if not self._content:
            text = json.dumps(self.payload, ensure_ascii=False, default=str)
            self._content = text.encode("utf-8", "replace")
        return self._content


async def _no_sandbox(hook: HookSpec, cwd: Path) -> Confinement | None:
    """Return None: without a session there is no sandbox."""
    return None


class HookEnvironment(Struct, frozen=True):
    """The environment of hooks: the project, the environment variables, the shell; `records` contain the running
    processes."""

    project: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    shell: str = "/bin/sh"
    records: ProcessRecords | None = None
    confine: Callable[[HookSpec, Path], Awaitable[Confinement | None]] = _no_sandbox
    """Returns the confinement of a hook that needs one, for an agent in that directory; None where no sandbox works."""
    http: HttpLimits = HttpLimits()
    digest: Callable[[HookSpec], str] = lambda hook: hook.files_digest
    """Returns the digest of the project's files that a trusted hook of it would run now."""
    settings_env: Mapping[str, str] = field(default_factory=dict[str, str])
    """The variables in `env` that a person's settings set. They are never removed."""
    git_doubt: Callable[[Path], str] = lambda _place: ""
    """Returns why git may run a program of the project in a directory now; empty when it runs none."""
    variables: Callable[[], SessionVariables] | None = None
    """Returns the variables that hooks set for later commands; None where nothing reads them."""
    trace: Callable[[str], str] | None = None
    """Returns the span of a tool call, by the model's id of it; None without telemetry."""


class HookFiring(Struct, frozen=True):
    """The values that the agent of an event gives to its hooks.

    `matches` returns True for a condition that the tool call fulfils. `deliver_later` takes a text of a background hook
    for the agent, and whether it wakes the agent.
    """

    matches: Callable[[str], bool] = lambda _condition: True
    deliver_later: Callable[[str, bool], None] = lambda _text, _wakes: None


NO_AGENT = HookFiring()

CallAction: TypeAlias = Callable[[HookSpec, Mapping[str, Any]], Awaitable[HookOutcome]]
"""Calls the model or server of a hook's action with the payload of an event."""


async def refuse_action(hook: HookSpec, payload: Mapping[str, Any]) -> HookOutcome:
    """Return a problem: the default where no model and no server can be called."""
    return HookOutcome(problem="there is no model and no server to call here")


_WORD = re.compile(r"[\w.+@/~-]+")
"""A word of a shell line that may name a program."""


class HookRunner(Struct):
    """The hooks of one session. `notify` reports a text to people, with its level: info or warning.

    `call_action` calls models and servers.
    """

    index: HookIndex
    environment: HookEnvironment
    notify: Callable[[str, str], None] = lambda _text, _level: None
    call_action: CallAction = refuse_action
    emit: Callable[[HookEnded], None] = lambda _event: None
    """Reports the end of a hook. Functions of a program are not reported: they cost less than the event."""
    _notified: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    _detached: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])

    def wants(self, *events: str) -> bool:
        """Return True when a hook exists for one of these events: otherwise no payload is needed."""
        return self.index.has_hooks(*events)

    async def fire(
        self,
        event: str,
        payload: Mapping[str, Any],
        subjects: tuple[str, ...] = ("",),
        cwd: Path | None = None,
        agent: HookFiring = NO_AGENT,
    ) -> HookOutcome:
        """Run the matching hooks and wait for them. Raises nothing but `CancelledError`; then no hook is left
        running, except background hooks.
        """
        found = self.index.matching_hooks(event, subjects)
        found = tuple(hook for hook in found if not hook.condition or agent.matches(hook.condition))
        if not found:
            return NO_OUTCOME
        hook_input = _HookInput({**payload, "hook_event_name": event}, agent.deliver_later)
        if event not in ENV_FILE_EVENTS or self.environment.variables is None:
            return await self._run_all(found, hook_input, cwd)
        variables = self.environment.variables()
        try:
            hook_input.env_file = str(variables.prepare())
        except (OSError, StorageError) as problem:
            self.notify(f"hooks of {event} cannot set variables for commands: {problem}", "warning")
        outcome = await self._run_all(found, hook_input, cwd)
        for problem in variables.problems():
            self.notify(problem, "warning")
        return outcome

    async def _run_all(self, found: Sequence[HookSpec], hook_input: _HookInput, cwd: Path | None) -> HookOutcome:
        if len(found) == 1 and not found[0].detached:
            return self._report_messages(await self._run(found[0], hook_input, cwd))
        waited: list[HookSpec] = []
        for hook in found:
            if hook.detached:
                self._start_detached(self._run_detached(hook, hook_input, cwd), f"hook of {hook.event}")
            else:
                waited.append(hook)
        if not waited:
            return NO_OUTCOME
        async with asyncio.TaskGroup() as together:
            running = [together.create_task(self._run(hook, hook_input, cwd)) for hook in waited]
        return self._report_messages(merge_outcomes(one.result() for one in running))

    def _report_messages(self, outcome: HookOutcome) -> HookOutcome:
        for message in outcome.messages:
            self.notify(message, "info")
        return outcome

    def run_in_background(self, work: Coroutine[Any, Any, object], name: str) -> None:
        """Run a coroutine in the background; the end of the session waits a little for it."""

        async def alone() -> None:
            await work

        self._start_detached(alone(), name)

    async def close(self) -> None:
        """Wait for background hooks, then end them."""
        if self._detached:
            await asyncio.wait(self._detached, timeout=CLOSE_S)
        for task in list(self._detached):
            task.cancel()
        if self._detached:
            await asyncio.wait(self._detached, timeout=CLOSE_S)

    def _start_detached(self, running: Coroutine[Any, Any, None], what: str) -> None:
        task = asyncio.get_running_loop().create_task(running, name=what)
        self._detached.add(task)
        task.add_done_callback(self._finish_task)

    def _finish_task(self, task: asyncio.Task[None]) -> None:
        self._detached.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self.notify(f"{task.get_name()}: {type(problem).__name__}: {problem}", "warning")

    async def _run_detached(self, hook: HookSpec, hook_input: _HookInput, cwd: Path | None) -> None:
        self._deliver(hook, await self._run(hook, hook_input, cwd), hook_input)

    async def _run(self, hook: HookSpec, hook_input: _HookInput, cwd: Path | None) -> HookOutcome:
        began = time.monotonic()
        try:
            if hook.function is not None:
                outcome = await _call_function(hook, hook.function, hook_input.payload)
            elif hook.action is not None:
                outcome = await self._run_action(hook, hook_input)
            else:
                # The trusted command of a repository names files from the root, so it runs there.
                theirs = Path(hook.source).is_relative_to(self.environment.project) if hook.source else False
                here = cwd if cwd is not None and cwd.is_dir() else self.environment.project
                place = self.environment.project if theirs else here
                outcome = await self._run_process(hook, hook_input, place, here)
        except (OSError, ValueError) as problem:
            outcome = HookOutcome(problem=f"it could not be started: {problem}")
        self._warn_once(hook, outcome)
        if hook.function is None:
            self.emit(_ended(hook, hook_input.payload, time.monotonic() - began, outcome))
        return _for_this_session(outcome) if hook.is_projects else outcome

    def _warn_once(self, hook: HookSpec, outcome: HookOutcome) -> None:
        if outcome.problem and (hook.event, hook.line) not in self._notified:
            self._notified.add((hook.event, hook.line))
            self.notify(f"a hook of {hook.event} counts for nothing ({hook.short_line}): {outcome.problem}", "warning")

    def _warn_unconfined(self, hook: HookSpec) -> None:
        """Say once that a hook runs outside of the sandbox, and what follows from that."""
        text = (
            f"a hook of {hook.event} runs without the sandbox, which is off or does not work here ({hook.short_line})"
        )
        if hook.confined_because:
            text += f": {hook.confined_because}, and agents may have changed that since you trusted the hook"
        if (hook.event, text) not in self._notified:
            self._notified.add((hook.event, text))
            self.notify(text, "warning")

    async def _run_action(self, hook: HookSpec, hook_input: _HookInput) -> HookOutcome:
        try:
            async with time_limit(hook.timeout_s):
                if isinstance(hook.action, HttpRequest):
                    return await self._send_request(hook, hook.action, hook_input)
                return await self.call_action(hook, hook_input.payload)
        except TimeoutError:
            return HookOutcome(problem=f"it was ended after {hook.timeout_s:g} s")
        except Exception as problem:  # an answer of another program may have any form
            return HookOutcome(problem=f"its answer cannot be used: {type(problem).__name__}: {problem}")

    async def _send_request(self, hook: HookSpec, request: HttpRequest, hook_input: _HookInput) -> HookOutcome:
        limits = self.environment.http
        if not limits.allows(request.url):
            return HookOutcome(problem="allowedHttpHookUrls of the settings does not name its address")
        from teamwright.hooks.http_request import send_request  # loads the HTTP client

        narrowed = limits.narrow(request)
        env = self.environment.env
        return await send_request(hook.event, narrowed, hook_input.content, env, hook.timeout_s)

    async def _run_process(self, hook: HookSpec, hook_input: _HookInput, cwd: Path, agent_cwd: Path) -> HookOutcome:
        from teamwright.hooks.hook_process import HookProcess, hook_arguments

        around = self.environment
        above = around.env.get(INSIDE_VARIABLE, "")
        mark = hashlib.sha256(f"{hook.event} {hook.line}".encode("utf-8", "replace")).hexdigest()[:16]
        if mark in above.split():
            return HookOutcome(problem="it is what started this session, and is not run inside itself")
        if hook.files_digest and await asyncio.to_thread(around.digest, hook) != hook.files_digest:
            return HookOutcome(problem="a file that it runs was changed since it was trusted: teamwright trust")
        hook = await _with_git_doubt(hook, around, cwd)
        own = {"PWD": str(cwd), INSIDE_VARIABLE: f"{above} {mark}".strip()}
        if around.trace is not None and (use := hook_input.payload.get("tool_use_id")):
            own[TRACEPARENT] = around.trace(str(use))
        if hook_input.env_file:
            own[ENV_FILE_VARIABLE] = hook_input.env_file
        fixed = {**around.settings_env, **dict(hook.variables), **own}
        env, confinement = await _start_of(hook, around, fixed, agent_cwd)
        if confinement is None and (hook.is_confined or (hook.files_digest and hook.confined_because)):
            self._warn_unconfined(hook)
        argv = hook_arguments(hook, around.shell, env)
        purpose = ProcessPurpose(call=f"hook {hook.event}")
        command = ProcessCommand(argv, cwd, env, around.records, purpose, hook_input.content, confinement=confinement)
        running = HookProcess.start(hook, command)
        outcome = await running.wait()
        if outcome is None:
            self._start_detached(self._finish(running, hook_input), f"hook of {hook.event}")
        elif running.background_s:
            self._deliver(hook, outcome, hook_input)
        return NO_OUTCOME if outcome is None or running.background_s else outcome

    async def _finish(self, running: HookProcess, hook_input: _HookInput) -> None:
        """Wait for a hook that continues in the background."""
        self._deliver(running.hook, await running.wait_in_background(), hook_input)

    def _deliver(self, hook: HookSpec, outcome: HookOutcome, hook_input: _HookInput) -> None:
        """Deliver the text of a background hook to the agent of its event. Its decisions come too late."""
        self._warn_once(hook, outcome)
        if hook.wakes and outcome.blocked:
            begin = hook.wake_text or f"A hook of {hook.event} that ran in the background found something:"
            hook_input.deliver_later(f"{begin}\n{outcome.reason}", True)
        elif texts := (*outcome.contexts, *outcome.messages):
            hook_input.deliver_later("\n".join(texts), False)


def _for_this_session(outcome: HookOutcome) -> HookOutcome:
    """Return the outcome with grants that end with the session: trust in a repository is none in settings for good."""
    answer = outcome.answer
    if answer is None or not answer.updates:
        return outcome
    updates = tuple({**update, "destination": "session"} for update in answer.updates)
    return replace(outcome, answer=replace(answer, updates=updates))


def _ended(hook: HookSpec, payload: Mapping[str, Any], seconds: float, outcome: HookOutcome) -> HookEnded:
    return HookEnded(
        member=str(payload.get("teammate_name") or payload.get("agent_id") or LEAD),
        hook=hook.event,
        kind="command" if hook.action is None else hook.action.kind,
        what=hook.short_line,
        seconds=round(seconds, 3),
        use=str(payload.get("tool_use_id") or ""),
        blocked=outcome.blocked,
        detail=outcome.problem,
    )


async def _with_git_doubt(hook: HookSpec, around: HookEnvironment, cwd: Path) -> HookSpec:
    """Return the hook, confined where it runs git and the repository names programs that no person trusted.

    A command may have put a submodule there since the session began.
    """
    if not hook.runs_git or hook.is_confined or hook.is_outside or hook.confined_because:
        return hook
    doubt = await asyncio.to_thread(around.git_doubt, cwd)
    return replace(hook, confined_because=doubt) if doubt else hook


async def _start_of(
    hook: HookSpec, around: HookEnvironment, fixed: Mapping[str, str], agent_cwd: Path
) -> tuple[Mapping[str, str], Confinement | None]:
    """Return the environment and the confinement of a hook.

    A program that only a directory of the project has on the PATH runs as with `"sandbox": true`.
    """
    words = _WORD.findall(" ".join((hook.command, *(hook.arguments or ()))))
    wants_sandbox = hook.is_confined or bool(hook.confined_because)
    start = own_program_start(words, around.env, fixed, wants_sandbox=wants_sandbox)
    confinement = await around.confine(hook, agent_cwd) if start.wants_sandbox else None
    return start.environment(is_confined=confinement is not None), confinement


async def _call_function(hook: HookSpec, function: HookFunction, payload: Mapping[str, Any]) -> HookOutcome:
    """Call a function of the program; an error in it is ignored, like that of a command."""
    try:
        answer = function(payload)
        if inspect.isawaitable(answer):
            async with time_limit(hook.timeout_s):
                answer = await answer
    except TimeoutError:
        return HookOutcome(problem=f"it was ended after {hook.timeout_s:g} s")
    except Exception as problem:
        log_failure(f"a function of the hook {hook.event} failed", problem)
        return HookOutcome(problem=f"it raised {type(problem).__name__}: {problem}")
    return parse_returned(hook.event, answer)


def no_hook_runner() -> HookRunner:
    """Return a runner without hooks."""
    return HookRunner(HookIndex(), HookEnvironment(Path()))
