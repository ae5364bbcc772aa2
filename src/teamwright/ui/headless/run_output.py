"""Output of a headless run: the answer or the JSON on stdout, everything else on stderr.

JSON results and lines of stream-json are for programs that read stdout. Their field names are those of similar
programs; fields of teams are under `team`.
"""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.models.model import NO_ANSWER, find_cause
from teamwright.protocol.errors import ModelFailed, StorageError, TeamwrightError
from teamwright.protocol.event_json import to_json
from teamwright.protocol.events import (
    AssistantText,
    ModelCallEnded,
    Notice,
    RequestClosed,
    RequestOpened,
    TeamEvent,
    TextDelta,
    ThinkingDelta,
    ToolStarted,
)
from teamwright.protocol.ids import LEAD, display_name
from teamwright.protocol.members import MemberState
from teamwright.protocol.usage import NO_USAGE, Usage
from teamwright.session.process_state import ServerStatus
from teamwright.session.result import Result, TaskResult
from teamwright.storage.paths import command_with_home
from teamwright.ui.display_text import clean, discard_buffer, json_text
from teamwright.ui.event_text import event_line
from teamwright.views.run_report import CallCollector
from teamwright.views.run_summary import cost_line

if TYPE_CHECKING:
    from teamwright.ui.headless.partial_messages import PartialMessages
    from teamwright.ui.headless.transcript_mirror import TranscriptMirror

_MAX_OPEN_TASKS = 10
"""The maximum number of open tasks listed at the end of a run."""

_END_TEXT = {MemberState.KILLED: "has ended", MemberState.FAILED: "failed", MemberState.CRASHED: "crashed"}

_REQUEST_WIDTH = 200
"""The width of a request's subject on stderr; `teamwright requests` shows it in full."""


class RunOutput(Struct):
    """The two output streams of a run. `on_write_error` is called once, when stdout fails with `write_error`."""

    format: str
    progress: bool
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    calls: CallCollector = field(default_factory=lambda: CallCollector(receipts=False))
    on_write_error: Callable[[], object] | None = None
    write_error: OSError | None = None
    root: str | None = None
    """The home that was named for this run."""
    replays_prompts: bool = False
    """True when the prompts of a client come back to it."""
    expects_prompt: bool = False
    """True until the line of the client's prompt comes, which is its replay."""
    partials: PartialMessages | None = None
    mirror: TranscriptMirror | None = None
    cleared: str = ""
    """The answer to the client's prompt that cleared the conversation, once a new one begins."""
    is_opened: bool = False
    """True once the session is open: its result line has every failure from then on."""
    is_answered: bool = False
    """True after the answer to the last prompt was written."""
    open_plan: str = ""
    """The path of the lead's plan that is not approved; empty without one."""
    usage_by_model: dict[str, Usage] = field(default_factory=dict[str, Usage])
    """The usage of all agents since the session was opened."""
    is_for_client: bool = False
    """True when a client program reads stdout: stderr is for warnings and errors alone."""
    shows_subagent_text: bool = True
    """False: of sub-agents only the calls and their results are shown. A client asks for their texts."""
    origin: Mapping[str, Any] | None = None
    """The origin of the prompt that is answered, as the client names it."""
    prompt_uuid: str = ""
    """The client's id of that prompt."""
    not_run: Sequence[tuple[str, Mapping[str, Any] | None]] = ()
    """The client's id and the origin of each prompt that was read and not carried out when the run ended."""

    def json_line(self, body: dict[str, Any]) -> None:
        """Write one JSON object on a line of stdout."""
        self._write(json_text(body) + "\n")

    def note(self, line: str) -> None:
        """Write one line to stderr; errors are ignored."""
        with contextlib.suppress(OSError):
            self.err.write(clean(line) + "\n")
            self.err.flush()

    def show_event(self, event: TeamEvent, session_id: str) -> None:
        """Show an event in the format of the flags."""
        self.calls.add_event(event)
        if isinstance(event, ModelCallEnded):
            self.usage_by_model[event.model] = self.usage_by_model.get(event.model, NO_USAGE) + event.usage
        if self.format == "stream-json":
            for line in () if self.partials is None else self.partials.lines(event, session_id):
                self.json_line(line)
            body = event_object(event, session_id)
            if isinstance(event, AssistantText) and event.parent_call and not self.shows_subagent_text:
                body = _without_text(body)
            if body is not None and _is_prompt(body):
                body = self._replay(body)
            if body is not None:
                self.json_line(body)
            if self.mirror is not None:
                self.mirror.note_event(event)
        if isinstance(event, RequestOpened):
            self.note(_request_lines(event, self.root))
        elif (self.progress or _is_always_shown(event)) and (line := event_line(event)) is not None:
            self.note(line)

    def begin_prompt(self, uuid: str, origin: Mapping[str, Any] | None) -> None:
        """Begin the answer to a prompt of the client. Its line is the next one of a prompt."""
        self.is_answered = False
        self.prompt_uuid = uuid
        self.origin = origin
        self.expects_prompt = self.replays_prompts

    def begin_conversation(self, cleared: str) -> None:
        """Tell the client that the conversation of the session `cleared` ends. Its lines are those of the next one."""
        ids = {"new_conversation_id": str(uuid.uuid4()), "uuid": str(uuid.uuid4()), "session_id": cleared}
        self.json_line({"type": "conversation_reset", **ids})
        self.cleared = f"The conversation is empty now. The one before is session {cleared}."
        self.usage_by_model = {}

    def _replay(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """Return the line of the client's prompt as its replay; None for the lead's other input, such as mail."""
        if not self.expects_prompt:
            return None
        self.expects_prompt = False
        marked = {**body, "isReplay": True, "uuid": self.prompt_uuid or body["uuid"]}
        return marked if self.origin is None else {**marked, "origin": self.origin}

    def write_answer(self, result: Result) -> None:
        """Write the answer to a prompt, in the format of the flags."""
        self.is_answered = True
        if self.mirror is not None:  # a client's store is up to date when the result arrives
            self.mirror.send_rest()
        if self.format != "text":
            body = result_object(result, self.usage_by_model)
            self.json_line({**body, **_prompt_fields(self.prompt_uuid, self.origin)})
        elif result.text:
            text = result.text.rstrip("\n")
            self._write((clean(text) if self.out.isatty() else text) + "\n")

    def write_ending(self, result: Result) -> None:
        """Write the answer, errors, the cost and the command to continue. Raises StorageError when stdout fails."""
        if not self.is_answered:
            self.write_answer(result)
        self._write_not_run(result)
        for line in _ending_lines(result, reader_left=isinstance(self.write_error, BrokenPipeError)):
            self.note(line)
        for line in _refused_lines(self.calls.refused(result)):
            self.note(line)
        if self.open_plan:
            self.note(f"teamwright: the plan is not approved; it is in {self.open_plan}")
        if not self.is_for_client:  # its result line has the usage
            self.note(cost_line(result))
        if self.write_error is not None and not isinstance(self.write_error, BrokenPipeError):
            raise StorageError(
                "disk-full",
                f"stdout could not be written: {self.write_error.strerror or self.write_error}",
                do=["make room where stdout goes", result.resume_command],
                note="the session has all of it",
            )

    def _write_not_run(self, result: Result) -> None:
        """Answer each prompt that came too late to be run: a line of the stream, or one line on stderr for all."""
        if self.format == "stream-json":
            reason = f"this prompt was not run: {_end_reason(result)}"
            for prompt_uuid, origin in self.not_run:
                body = result_object(replace(result, output=None), self.usage_by_model)
                body |= {"result": reason, "errors": [reason]}
                self.json_line({**body, **_prompt_fields(prompt_uuid, origin)})
        elif self.not_run:
            count = len(self.not_run)
            self.note(f"teamwright: {count} prompt{'' if count == 1 else 's'} not run: {_end_reason(result)}")

    def _write(self, text: str) -> None:
        if self.write_error is not None:
            return
        try:
            self.out.write(text)
            self.out.flush()
        except OSError as problem:
            self.write_error = problem
            discard_buffer(self.out)
            if self.on_write_error is not None:
                self.on_write_error()


def _prompt_fields(prompt_uuid: str, origin: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the fields of a result line that name its prompt, as far as the client gave them."""
    fields: dict[str, Any] = {} if origin is None else {"origin": origin}
    return fields | ({"user_message_uuid": prompt_uuid, "user_message_uuids": [prompt_uuid]} if prompt_uuid else {})


def _is_prompt(body: Mapping[str, Any]) -> bool:
    """Return True for the line of input of the lead: a prompt, mail or a notice."""
    if body["type"] != "user" or "agent_id" in body:
        return False
    return not any(block["type"] == "tool_result" for block in body["message"]["content"])


def _without_text(body: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the line of a sub-agent's message with its calls and results alone; None when it has none."""
    if body is None:
        return None
    content = [block for block in body["message"]["content"] if block["type"] in {"tool_use", "tool_result"}]
    return {**body, "message": {**body["message"], "content": content}} if content else None


def _is_always_shown(event: TeamEvent) -> bool:
    """Return True for events that are shown without --verbose too, which are warnings and answers to requests."""
    return isinstance(event, RequestClosed) or (isinstance(event, Notice) and event.level == "warning")


def _request_lines(request: RequestOpened, root: str | None) -> str:
    """Return the lines of an open request: the commands that answer it from another terminal, and its time limit."""
    from teamwright.ui.display_text import cut, one_line
    from teamwright.ui.event_text import answer_command, request_text  # loaded only in a run with requests

    until = datetime.fromtimestamp(request.deadline).strftime(" (until %H:%M:%S)") if request.deadline else ""
    whole = f"{display_name(one_line(request.member))} {request_text(request)}"
    question = cut(whole, _REQUEST_WIDTH)
    hides = question != whole or (request.kind == "permission" and "\n" in request.what.strip())
    see = f"\n  see all of it with: {command_with_home('teamwright requests', root)}" if hides else ""
    answer = answer_command(request.request, request.kind, root)
    return f"teamwright: {question}{see}\n  answer it with: {answer}{until}"


def _ending_lines(result: Result, *, reader_left: bool) -> list[str]:
    lines: list[str] = []
    if result.error is not None:
        lines.append(result.error.render())
    elif result.stop == "limit":
        command = f"\n  continue: {result.larger_command}" if result.resume_command else ""
        lines.append(f"teamwright: {result.limit_detail}{command}")
    elif result.stop == "cancelled":
        why = "stdout was closed" if reader_left else "interrupted"
        saved = f", everything is saved: {result.resume_command}" if result.resume_command else ""
        lines.append(f"teamwright: {why}{saved}")
    if result.cut_off:
        lines.append(f"teamwright: cut off at work: {', '.join(result.cut_off)}")
    lines += [f"teamwright: {one.name} failed: {one.error}" for one in result.failed_members if not one.ended]
    lines += [f"teamwright: {one.name} {_END_TEXT[one.state]}: {one.ended}" for one in result.members if one.ended]
    return lines + _open_task_lines(result, has_command=bool(lines) and result.stop not in {"done", "cut_off"})


def _open_task_lines(result: Result, *, has_command: bool) -> list[str]:
    """Return the open tasks, and the command to continue unless another line shows one (`has_command`)."""
    tasks = result.open_tasks
    if not tasks and not result.cut_off:
        return []
    labels = [
        f"#{one.id} {one.subject}" + (f" ({display_name(one.owner)})" if one.owner else "")
        for one in tasks[:_MAX_OPEN_TASKS]
    ]
    more = f", and {len(tasks) - _MAX_OPEN_TASKS} more" if len(tasks) > _MAX_OPEN_TASKS else ""
    lines = [f"teamwright: open tasks: {', '.join(labels)}{more}"] if tasks else []
    if has_command or not result.resume_command:
        return lines
    return [*lines, f"teamwright: continue with: {result.resume_command}"]


def _refused_lines(calls: Sequence[tuple[str, str, str, str]]) -> list[str]:
    """Return a line for each refused call, with the rule that would allow it."""
    if not calls:
        return []
    from teamwright.ui.display_text import cut, one_line  # loaded only in a run with refused calls

    return [
        f"teamwright: refused {tool} of {who} ({rule})" + (f": {cut(one_line(call), _REQUEST_WIDTH)}" if call else "")
        for tool, who, rule, call in calls
    ]


LIMIT_SUBTYPES = {"money": "error_max_budget_usd", "turns": "error_max_turns"}
"""The subtypes of similar programs for caps; other ends without an answer are `error_during_execution`."""

_TERMINAL_REASONS = {
    ("done", ""): "completed",
    ("cut_off", ""): "completed",
    ("cancelled", ""): "aborted_streaming",
    ("limit", "turns"): "max_turns",
}
"""The reasons of similar programs for the end of a run, by its ending and its cap. They have none for other ends."""

_SERVER_STATUS = {"running": "connected", "failed": "failed"}


def result_object(result: Result, usage_by_model: Mapping[str, Usage] | None = None) -> dict[str, Any]:
    """Return the object of `--output-format json`, which is also the last line of stream-json.

    Source of its names: the message types of the Claude Agent SDK reference.
    """
    return {
        "type": "result",
        "subtype": _subtype(result),
        "is_error": not result.ok,
        "duration_ms": result.duration_ms,
        "duration_api_ms": result.api_ms,
        "num_turns": result.turns,
        "result": result.text or ("" if result.ok else _end_reason(result)),
        "api_error_status": result.api_status or None,
        "terminal_reason": _terminal_reason(result),
        "session_id": result.session_id,
        "total_cost_usd": result.usage.usd,
        "usage": result.usage.as_json(),
        "modelUsage": {model: _model_usage(usage) for model, usage in (usage_by_model or {}).items()},
        "permission_denials": [dict(one) for one in result.denials],
        **({"structured_output": result.output} if result.output is not None else {}),
        **({} if result.ok else {"errors": [_end_reason(result)]}),
        "team": _team_object(result),
        "uuid": str(uuid.uuid4()),
    }


def refused_start(problem: TeamwrightError, session_id: str) -> dict[str, Any]:
    """Return the result line of a session that could not be opened: clients show its error instead of an exit code."""
    return {
        "type": "result",
        "subtype": "error_during_execution",
        "is_error": True,
        "duration_ms": 0,
        "duration_api_ms": 0,
        "num_turns": 0,
        "session_id": session_id,
        "total_cost_usd": 0,
        "usage": NO_USAGE.as_json(),
        "result": problem.what,
        "errors": [problem.what],
        "uuid": str(uuid.uuid4()),
    }


def _subtype(result: Result) -> str:
    """Return the subtype of similar programs. A service that gave no answer ends a run as `success` with `is_error`."""
    if result.ok:
        return "success"
    if result.error is not None and result.error.slug == "invalid-output":
        return "error_max_structured_output_retries"
    if isinstance(result.error, ModelFailed) and result.error.slug not in {NO_ANSWER, "context-full"}:
        return "success"
    return LIMIT_SUBTYPES.get(result.limit, "error_during_execution")


def _terminal_reason(result: Result) -> str | None:
    if result.error is None:
        return _TERMINAL_REASONS.get((result.stop, result.limit))
    if result.error.slug == "hook-refused":
        return "hook_stopped"
    if result.error.slug == "context-full":
        return "prompt_too_long"
    return "api_error" if isinstance(result.error, ModelFailed) else None


def _model_usage(usage: Usage) -> dict[str, Any]:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "cacheReadInputTokens": usage.cache_read,
        "cacheCreationInputTokens": usage.cache_write,
        "costUSD": usage.usd,
    }


def _end_reason(result: Result) -> str:
    """Return why a run is not done, for the field `errors`."""
    if result.error is not None:
        said = find_cause(result.error.looked_at).strip()
        return f"{result.error.what}: {said}" if said else result.error.what
    if result.stop == "limit":
        return result.limit_detail
    return f"cut off at work: {', '.join(result.cut_off)}" if result.cut_off else "interrupted"


def _team_object(result: Result) -> dict[str, Any]:
    return {
        "name": result.team or None,
        "stop": result.stop,
        "end": result.end or None,
        "limit": result.limit or None,
        "error": None if result.error is None else {"slug": result.error.slug, "what": result.error.what},
        "members": [
            {
                "name": one.name,
                "state": one.state,
                "model": one.model,
                "usage": one.usage.as_json(),
                "cost_usd": one.usage.usd,
                "error": one.error or None,
            }
            for one in result.members
        ],
        "tasks": [_task_object(task) for task in result.tasks],
        "tasks_done": sum(t.status == "completed" for t in result.tasks),
        "tasks_open": len(result.open_tasks),
        "messages": {
            "sent": result.messages_sent,
            "seen": result.messages_seen,
            "undelivered": result.messages_undelivered,
        },
        "cut_off": list(result.cut_off),
        "fallbacks": [
            {"name": display_name(one.member), "model": one.model, "before": one.before} for one in result.fallbacks
        ],
        "resume_command": result.resume_command,
    }


def _task_object(task: TaskResult) -> dict[str, Any]:
    fields = {"id": task.id, "subject": task.subject, "status": task.status, "owner": task.owner}
    return fields | ({"unverified": True} if task.unverified else {})


def init_object(
    session_id: str,
    cwd: str,
    model: str,
    mode: str,
    names: Mapping[str, list[str]],
    servers: Sequence[ServerStatus],
) -> dict[str, Any]:
    """Return the first line of stream-json. `names` lists tools, commands and agent types by kind."""
    return {
        "type": "system",
        "subtype": "init",
        "cwd": cwd,
        "session_id": session_id,
        **names,
        "mcp_servers": [{"name": one.name, "status": _SERVER_STATUS.get(one.state, "pending")} for one in servers],
        "model": model,
        "permissionMode": mode,
        "uuid": str(uuid.uuid4()),
    }


def event_object(event: TeamEvent, session_id: str) -> dict[str, Any] | None:
    """Return an event as a line of stream-json; None for events that only terminals show."""
    if isinstance(event, TextDelta | ThinkingDelta | ToolStarted):
        return None
    if isinstance(event, AssistantText):
        return _message_object(event, session_id)
    body = {"type": "system", "subtype": "team_event", "session_id": session_id, "event": to_json(event)}
    return {**body, "uuid": str(uuid.uuid4())}


def _message_object(event: AssistantText, session_id: str) -> dict[str, Any]:
    role = str(event.message["role"])
    message: dict[str, Any] = {"role": role, "content": list(event.content)}
    if role == "assistant":
        message = {"id": event.id, "type": "message", "model": event.model, **message}
        message |= {"stop_reason": event.stop_reason or None, "stop_sequence": None}
        if event.usage is not None:
            message["usage"] = event.usage.as_json()
    body: Mapping[str, Any] = {
        "type": role,
        "message": message,
        "parent_tool_use_id": event.parent_call,
        "session_id": session_id,
        "uuid": event.uuid or str(uuid.uuid4()),
    }
    return {**body} if event.member == LEAD else {**body, "agent_id": event.agent_id}
