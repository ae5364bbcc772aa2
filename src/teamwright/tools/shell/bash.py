"""The Bash tool: each command runs in a new shell; the working directory is kept between calls.

Long commands move to the background, and processes that a command leaves running become a background job. With a
startup, commands run in the user's shell with its snapshot. Changes of files are recorded for commands that are not
proved read-only. Permission is decided elsewhere, from `access`.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace
from pydantic import Field, PrivateAttr

from teamwright.agent.background_jobs import BackgroundJobs, Job
from teamwright.agent.tool import Tool, ToolContext, ToolResult, Workplace
from teamwright.agent.tool_input import ToolInput
from teamwright.permissions.verdict import Access
from teamwright.processes.commands import Process, ProcessCommand, ProcessOutput, wait_or_terminate
from teamwright.processes.process_records import ProcessPurpose
from teamwright.processes.program_environment import absolute_entries, without_git_variables
from teamwright.protocol.trace_context import TRACEPARENT
from teamwright.sandbox.named_hosts import Destination
from teamwright.sandbox.policy import PolicyName
from teamwright.sandbox.sandbox import CommandConfinement, Sandbox
from teamwright.storage.paths import make_private
from teamwright.tools.shell.bash_settings import (
    COMMAND_ENVIRONMENT,
    BashSettings,
    command_environment,
    remove_variables,
)
from teamwright.tools.shell.command_changes import CallChanges, CommandChanges
from teamwright.tools.shell.command_guards import CommandGuards
from teamwright.tools.shell.command_line import (
    ShellLine,
    allowed_directory,
    ensure_directory,
    expand_command,
    follow_directory,
    is_read_otherwise,
    shell_line,
    track_directory,
)
from teamwright.tools.shell.startup import ShellStartup


class BashInput(ToolInput):
    """Parameters of Bash."""

    command: str = Field(description="Shell command.")
    timeout: int | None = Field(None, gt=0, description="Milliseconds, at most 600000.")
    description: str = Field("", description="5 to 10 words.")
    run_in_background: bool = False
    _checked_cwd: Path | None = PrivateAttr(default=None)
    _checked_real_path: str = PrivateAttr(default="")
    _checked_expansion: str = PrivateAttr(default="")
    _checked_path: str = PrivateAttr(default="")
    _by_person: bool = PrivateAttr(default=False)
    _hosts: tuple[Destination, ...] | None = PrivateAttr(default=None)

    @property
    def checked_directory(self) -> Path:
        """The directory that `access` checked; the root before that."""
        return self._checked_cwd or Path(os.sep)

    @property
    def is_typed_by_person(self) -> bool:
        """True when a person typed the command. It then lacks the variable that marks agents' commands."""
        return self._by_person

    def mark_typed_by_person(self) -> BashInput:
        """Note that a person typed the command."""
        self._by_person = True
        return self

    @property
    def hosts(self) -> tuple[Destination, ...] | None:
        """The hosts that the command names in the sandbox; None while they are not known."""
        return self._hosts

    def note_hosts(self, hosts: tuple[Destination, ...]) -> None:
        """Note the hosts that the command names."""
        self._hosts = hosts

    def note_checked(self, cwd: Path, expansion: str = "", search_path: str = "") -> None:
        """Note for what the verdict is made: the directory, the command with its aliases expanded, and the PATH."""
        self._checked_cwd = cwd
        self._checked_real_path = os.path.realpath(cwd)
        self._checked_expansion = expansion
        self._checked_path = search_path

    def is_checked_in(self, cwd: Path) -> bool:
        """Return True when the verdict was made for this directory, or when there was none."""
        return self._checked_cwd is None or (
            self._checked_cwd == cwd and self._checked_real_path == os.path.realpath(cwd)
        )

    def is_checked_with(self, expansion: str, search_path: str) -> bool:
        """Return True when the verdict was made for this expansion and this PATH, or when there was none."""
        return self._checked_cwd is None or (self._checked_expansion, self._checked_path) == (expansion, search_path)


MAX_COMMAND = 100_000
"""The longest command in bytes; Linux takes at most 128 KiB in one argument."""

_RETRY_HINT = "Look where you are with pwd, then call it again if it is still right."

_END_IN_FACTS = 600
"""Bytes of the end of the output that programs get besides its beginning."""

WAITING_COMMANDS = re.compile(r"\b(?:sleep|wait|inotifywait|tail\s+-[fF])\b", re.I)
"""Commands that wait for an outside event."""


def proves_nothing(command: str, cwd: Path) -> bool:
    """Return no proof: no command is known to be read-only."""
    return False


class Bash(Tool[BashInput]):
    """The Bash tool. `proves_read_only` returns True for a command that changes nothing in its directory.

    `env` is the environment of commands, without the variables that the settings hide. None: that of this process.
    `hooked` returns the variables that hooks of the session set; those of the workplace have precedence.
    """

    name = "Bash"
    input_type = BashInput

    def __init__(
        self,
        jobs: BackgroundJobs,
        settings: BashSettings | None = None,
        proves_read_only: Callable[[str, Path], bool] = proves_nothing,
        startup: ShellStartup | None = None,
        env: Mapping[str, str] | None = None,
        sandbox: Sandbox | None = None,
        *,
        hooked: Callable[[], Mapping[str, str]] = dict[str, str],
    ) -> None:
        self._changes = CallChanges()
        self._guards = CommandGuards(jobs)
        self._jobs = jobs
        self._settings = settings or BashSettings()
        self._proves_read_only = proves_read_only
        self._startup = startup
        self._env = env
        self._sandbox = sandbox
        self._hooked = hooked

    def with_changes(self, changes: CommandChanges) -> Bash:
        """Record the files that commands change, and return this tool."""
        self._changes.record(changes, self._jobs)
        return self

    def is_read_only(self, call: BashInput) -> bool:
        """Return True for a command that the parser proves to be read-only in the directory that `access` checked."""
        return not call.run_in_background and self._proves_read_only(call.command, call.checked_directory)

    def is_wait(self, call: BashInput, result: ToolResult) -> bool:
        """Return True for a command that slept, or waited for a process or a file; not for one that was refused."""
        return "exit_code" in result.facts and WAITING_COMMANDS.search(call.command) is not None

    def makes_known_change(self, call: BashInput) -> bool:
        """Return True in the background: the same command again only starts one more process."""
        return call.run_in_background

    def summary(self, call: BashInput) -> str:
        """Return the command on one line."""
        return " ".join(call.command.split())[:200]

    def preview(self, call: BashInput, ctx: ToolContext) -> str:
        """Return the whole command, and its form with aliases expanded, for an informed approval."""
        means = self._expansion(call, allowed_directory(ctx.workplace))
        text = f"{call.command}\n# by your shell's aliases: {means}" if means else call.command
        named = self._named_needs(call, ctx)
        return f"{text}\n# in the sandbox with: {named}" if named else text

    def _sandbox_for(self, ctx: ToolContext) -> Sandbox | None:
        """Return the sandbox of the calling agent, which may be narrower than the session's."""
        return self._sandbox.narrowed(ctx.workplace.sandbox) if self._sandbox is not None else None

    def _named_needs(self, call: BashInput, ctx: ToolContext) -> str:
        """Return the network and the credentials that the command names and gets in the sandbox."""
        if (sandbox := self._sandbox_for(ctx)) is None or sandbox.is_off:
            return ""
        from teamwright.tools.shell.command_confinement import describe_needs  # loading the grammar is expensive

        return describe_needs(sandbox, call.command, ctx, call.hosts or ())

    def describe_limits(self, call: BashInput, ctx: ToolContext) -> str:
        """Return the files that the command names and that the sandbox keeps from it."""
        if call.is_typed_by_person or (sandbox := self._sandbox_for(ctx)) is None or sandbox.is_off:
            return ""
        from teamwright.tools.shell.command_confinement import describe_limits  # loading the grammar is expensive

        return describe_limits(sandbox, call.command, ctx)

    async def find_facts(self, call: BashInput, ctx: ToolContext) -> bool:
        """Find the hosts that the command names. Read the shell's startup before the first command, because it can
        change the meaning of a command, and the PATH on which its programs are found.
        """
        await self._find_hosts(call, ctx)
        if self._startup is None:
            return False
        await self._startup.ensure_ready()
        expansion = self._expansion(call, call.checked_directory)
        return not call.is_checked_with(expansion, self._search_path(call, ctx))

    async def _find_hosts(self, call: BashInput, ctx: ToolContext) -> None:
        """Find the hosts that the command names, once: those that a question showed are those that it reaches."""
        sandbox = None if call.is_typed_by_person or call.hosts is not None else self._sandbox_for(ctx)
        if sandbox is None or sandbox.is_off:
            return
        from teamwright.tools.shell.command_confinement import find_hosts  # loading the grammar is expensive

        call.note_hosts(await find_hosts(sandbox, call.command, ctx.workplace.cwd))

    async def _open_network(self, sandbox: Sandbox, call: BashInput, ctx: ToolContext) -> None:
        """Start the proxy of the sandbox before the first command that may reach a host through it."""
        if sandbox.is_off or call.is_typed_by_person or ctx.grant.policy is not PolicyName.WORK:
            return
        from teamwright.tools.shell.command_confinement import line_request  # loading the grammar is expensive

        await sandbox.open_network(line_request(call.command, ctx.workplace.cwd, ctx.grant.directories))

    def access(self, call: BashInput, ctx: ToolContext) -> Access:
        """Return the command, its directory, and its form with the shell's aliases expanded."""
        cwd = allowed_directory(ctx.workplace)
        means = self._expansion(call, cwd)
        path = self._search_path(call, ctx)
        call.note_checked(cwd, means, path)
        sandbox = None if call.is_typed_by_person else self._sandbox_for(ctx)
        answers = sandbox.answers() if sandbox is not None else frozenset[PolicyName]()
        otherwise = is_read_otherwise(call.command, self._startup, cwd)
        line = Access(command=call.command, cwd=cwd, expanded_command=means, is_read_otherwise=otherwise)
        return replace(line, sandbox=answers, search_path=path, changeable=tuple(map(str, ctx.workplace.directories())))

    def _search_path(self, call: BashInput, ctx: ToolContext) -> str:
        return self.environment(ctx.workplace, by_person=call.is_typed_by_person).get("PATH", "")

    def _expansion(self, call: BashInput, cwd: Path) -> str:
        """Return the command with the shell's aliases expanded; empty when nothing changes or they are unknown."""
        return expand_command(call.command, self._startup, cwd)

    async def run(self, call: BashInput, ctx: ToolContext) -> ToolResult:
        """Run the command in the foreground until its end or its timeout, or start it in the background."""
        if len(os.fsencode(call.command)) > MAX_COMMAND:
            return ToolResult.error("The command is longer than 100 kB.", "Write a script to a file and run that.")
        if "\0" in call.command:
            return ToolResult.error("The command holds a NUL character.")
        place = ctx.workplace
        make_private(place.scratch)
        # processes of an earlier run of the session are gone before a command starts
        await self._jobs.wait_for_orphan_cleanup()
        note = ensure_directory(place)
        if not call.is_checked_in(place.cwd):
            # An inside path may be an outside path there: the verdict was for the other directory.
            return ToolResult.error(
                f"The directory {call.checked_directory} is not what it was: nothing was run.", _RETRY_HINT
            )
        if self._startup is not None:
            await self._startup.ensure_ready()
            if not call.is_checked_with(self._expansion(call, place.cwd), self._search_path(call, ctx)):
                return ToolResult.error(
                    "The shell's aliases or its PATH have changed: nothing was run.", "Call it again."
                )
        if (sandbox := self._sandbox_for(ctx)) is not None:
            await self._find_hosts(call, ctx)  # of an input that came with the answer to a question
            await self._open_network(sandbox, call, ctx)
        if not self._proves_read_only(call.command, place.cwd):
            await self._changes.begin(call, ctx, by_person=call.is_typed_by_person)
        try:
            if call.run_in_background:
                return self._start(call, ctx)
            return await self._run(call, ctx, note)
        except OSError as problem:
            what = f"{problem.strerror}: {problem.filename}" if problem.filename else problem.strerror
            return ToolResult.error(f"The shell could not be started: {what}.", note)
        finally:
            self._guards.end(call)
            await self._changes.end(call)

    def environment(self, workplace: Workplace, *, by_person: bool = False) -> dict[str, str]:
        """Return the environment of a command: this process's without credentials, the shell's PATH, and the
        workplace's variables. A command that a person typed keeps the credentials of services other than models."""
        if by_person:
            seen = remove_variables(self._settings.hidden, self._env)
        else:
            seen = command_environment(self._settings, self._env)
        if self._startup is not None and "PATH" in seen:
            seen["PATH"] = self._startup.command_path(seen["PATH"])
        if not by_person and "PATH" in seen:
            seen["PATH"] = absolute_entries(seen["PATH"])
        given = workplace.env if by_person else without_git_variables(workplace.env)
        return {**seen, **self._hooked(), **given, **COMMAND_ENVIRONMENT, "PWD": str(workplace.cwd)}

    def _line(self, call: BashInput, ctx: ToolContext, ended_in: Path | None = None) -> ShellLine:
        workplace = ctx.workplace
        by_person = call.is_typed_by_person
        env = self.environment(workplace, by_person=by_person)
        if span := ctx.traceparent:
            env[TRACEPARENT] = span
        line = shell_line(
            call.command,
            self._startup,
            workplace.cwd,
            env,
            workplace.directories(),
            by_person=by_person,
            hides_values=ctx.grant.policy is PolicyName.READ,
        )
        return line if ended_in is None else track_directory(line, ended_in)

    def _confinement(self, call: BashInput, ctx: ToolContext, *own_files: Path) -> CommandConfinement | None:
        """Return the confinement of a command. The runtime's own files exist before the command starts."""
        if self._sandbox is None or call.is_typed_by_person:
            return None
        from teamwright.tools.shell.command_confinement import confine_command  # loading the grammar is expensive

        jobs = [job.pid for job in self._jobs.list(ctx.member) if job.state == "running"]
        confinement = confine_command(self._sandbox_for(ctx), call.command, ctx, call.hosts or (), own_files, jobs)
        for file in own_files if confinement is not None else ():
            file.touch(mode=0o600)
        return confinement

    def _start(self, call: BashInput, ctx: ToolContext) -> ToolResult:
        place = ctx.workplace
        purpose = ProcessPurpose(ctx.member, ctx.call)
        line = self._line(call, ctx)
        confinement = self._confinement(call, ctx)
        self._guards.begin(call, confinement, place.scratch.parent)
        command = ProcessCommand(line.argv, place.cwd, line.env, purpose=purpose, confinement=confinement)
        job = self._jobs.start(
            command,
            owner=ctx.member,
            scratch=place.scratch,
            text=call.command,
            description=call.description,
            tool_use_id=ctx.tool_use_id,
            timeout_s=None if call.timeout is None else _in_seconds(call.timeout, self._settings),
        )
        self._move_to_job(job, call)
        return ToolResult(
            f"Started in the background as {job.id}. Output: {job.file} (Read it at any time).\n"
            f"You are notified when it ends: do not wait for it. To stop it: kill -- -{job.pid}",
            brief=f"background {job.id}",
            facts={"job": job.id, "output_file": str(job.file)},
        )

    def _move_to_job(self, job: Job, call: BashInput) -> None:
        """Record what the command changes, and compare protected paths, until the end of the job."""
        self._changes.move_to_job(job, call)
        self._guards.move_to_job(job, call)

    async def _run(self, call: BashInput, ctx: ToolContext, note: str) -> ToolResult:
        place = ctx.workplace
        before = place.cwd
        timeout_s = _seconds(call.timeout, self._settings)
        stem = f"{ctx.call or 'bash'}-{secrets.token_hex(4)}"
        output = ProcessOutput(self._settings.max_output, place.scratch / f"{stem}.output")
        ended_in = place.scratch / f"{stem}.cwd"
        line = self._line(call, ctx, ended_in)
        purpose = ProcessPurpose(ctx.member, ctx.call, output=str(place.scratch / f"{stem}.output"))
        records = self._jobs.records
        by_agent = not call.is_typed_by_person
        confinement = self._confinement(call, ctx, ended_in)
        command = ProcessCommand(
            line.argv, before, line.env, records, purpose, is_for_agent=by_agent, confinement=confinement
        )
        guard = self._guards.begin(call, confinement, place.scratch.parent)
        process = Process.start(command, output)
        is_still_running = False
        try:
            with self._jobs.foreground(process, output, owner=ctx.member, call=ctx.call, text=call.command):
                in_time = await wait_or_terminate(process, timeout_s=timeout_s, grace_s=self._settings.grace_s)
            is_still_running = in_time and not process.exited.is_set()
            if is_still_running:
                return self._move_to_background(process, output, call, ctx)
            moved = follow_directory(place, before, ended_in)
        finally:
            # Of a running command the sandbox may not have mounted the file yet, and the command writes it at its end.
            if not is_still_running:
                with contextlib.suppress(OSError):
                    ended_in.unlink(missing_ok=True)
                if not (process.exited.is_set() and process.has_left_running()):
                    process.close()
                    output.close()
        left = self._adopt_left_running(process, output, call, ctx) if in_time else ""
        late = (
            ""
            if in_time
            else (
                f"[ended after {timeout_s:g} s: that was its limit. Above is what it wrote until then.]\n"
                "Give a longer timeout, or use run_in_background."
            )
        )
        code = process.exit_code
        refusal = None
        refused = ""
        if confinement is not None and guard is not None:
            from teamwright.tools.shell.command_confinement import find_refusals

            refusal, refused = find_refusals(confinement, guard, output.text(), before, place.scratch, code)
        result = self._result(output, place, code, [refused, late, left, moved, note])
        return result if refusal is None else replace(result, refusal=refusal.event())

    def _result(self, output: ProcessOutput, place: Workplace, code: int | None, notes: list[str]) -> ToolResult:
        """Return the result of a command that has ended. The first two notes say what was refused, and the timeout."""
        refused, late, *_ = notes
        status = f"exit code {_exit_code(code)}" if code and not late else ""
        body = output.text().rstrip("\n")
        brief = f"{status}, the sandbox refused something" if refused and status else status
        return ToolResult(
            "\n".join(part for part in (body, status, *notes) if part),
            is_error=bool(status or late),
            brief=brief or ("timed out" if late else _lines(body)),
            facts={
                "exit_code": code,
                "cwd": str(place.cwd),
                "lines": output.line_count,
                "end": output.end(_END_IN_FACTS),
                **({"output_file": str(output.file)} if output.file else {}),
                **({"sandbox": refused} if refused else {}),
            },
        )

    def _move_to_background(
        self, process: Process, output: ProcessOutput, call: BashInput, ctx: ToolContext
    ) -> ToolResult:
        """Make a job of a running command, because a person did not want the agent to wait."""
        job = self._jobs.adopt(process, output, owner=ctx.member, text=call.command, tool_use_id=ctx.tool_use_id)
        if job is None:
            self._guards.move_to_job(None, call)
            return ToolResult("The command continues in the background; it has closed its output.", brief="background")
        self._move_to_job(job, call)
        return ToolResult(
            f"It continues in the background as {job.id}. Output: {job.file} (Read it at any time).\n"
            f"You are notified when it ends: do not wait for it. To stop it: kill -- -{job.pid}",
            brief=f"background {job.id}",
            facts={"job": job.id, "output_file": str(job.file)},
        )

    def _adopt_left_running(self, process: Process, output: ProcessOutput, call: BashInput, ctx: ToolContext) -> str:
        if not process.has_left_running():
            return ""
        job = self._jobs.adopt(process, output, owner=ctx.member, text=call.command, tool_use_id=ctx.tool_use_id)
        stop = f"To stop it: kill {process.kill_arguments()}"
        if job is None:
            self._guards.move_to_job(None, call)
            return f"[The background processes of the command continue until the session ends. {stop}]"
        self._move_to_job(job, call)
        return f"[The processes of the command continue as {job.id}. Its output: {job.file}. {stop}]"


def _seconds(timeout: int | None, settings: BashSettings) -> float:
    if timeout is None:
        return settings.timeout_s
    return min(_in_seconds(timeout, settings), settings.max_timeout_s)


def _in_seconds(timeout: int, settings: BashSettings) -> float:
    # No command needs a timeout below a second, so such numbers are meant in seconds.
    return timeout if timeout <= settings.max_timeout_s else timeout / 1000


def _exit_code(code: int) -> str:
    if code >= 0:
        return str(code)
    with contextlib.suppress(ValueError):
        return f"{128 - code} ({signal.Signals(-code).name})"
    return str(128 - code)


def _lines(body: str) -> str:
    count = body.count("\n") + 1 if body else 0
    return f"{count} line{'' if count == 1 else 's'}"
