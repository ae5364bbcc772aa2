"""Texts about sub-agents and background commands: the notices of their ends, results for programs, the file of a run.

Depends on runs, jobs and envelopes. The delivery of notices is left to others.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.agent.agent import is_cap
from teamwright.agent.background_jobs import Job
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import SubagentChanged
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.runtime_tags import RuntimeTags, TaskEnd
from teamwright.protocol.usage import Usage
from teamwright.subagents.subagent_run import SubagentRun

_MAX_INPUT_CHARS = 200
"""Characters of a call's input that the file shows."""


def end_notice(run: SubagentRun) -> TaskEnd:
    """Return the end of a background sub-agent for its owner. `run` has ended."""
    how = "was killed" if run.state == "killed" else run.state
    reason = f": {run.failure_reason.rstrip('.')}" if run.failure_reason else ""
    notes: list[str] = []
    if run.unread_messages:
        notes.append(f"It ended before it read {run.unread_messages} message{'s' if run.unread_messages > 1 else ''}.")
    if run.state != "completed":
        notes += ["The result is its text until then."] if run.text else []
        notes += [f'Call Agent with resume "{run.id}" to continue it.'] if may_continue(run) else []
    return TaskEnd(
        task_id=run.id,
        tool_use_id=run.call,
        output_file=str(run.output_file),
        status=str(run.state),
        summary=f'Sub-agent "{_quote(run.description)}" {how}{reason}.',
        result=run.text,
        usage=usage_text(run),
        note=" ".join(notes),
    )


def may_continue(run: SubagentRun) -> bool:
    """Return True when it helps to continue a sub-agent that ended: not after a refused request, nor at a spent cap."""
    end = run.end
    if end is None or run.state == "killed":
        return True
    return end.failure.retriable if end.failure is not None else end.stop != "limit"


def job_end_notice(job: Job) -> TaskEnd:
    """Return the end of a background command for its owner. `job` has ended."""
    how = job.state if job.state in {"completed", "failed"} else f"was {job.state}"
    if job.timed_out_s:
        how += f": that was its time limit of {job.timed_out_s:g} s"
    elif job.state == "killed":
        how += ": it ended with the process that ran it"
    elif job.exit_code is not None:
        how += f" with exit code {job.exit_code}"
    return TaskEnd(
        task_id=job.id,
        tool_use_id=job.tool_use_id,
        output_file=str(job.file),
        status=job.state,
        summary=f'Background command "{_quote(job.description or job.command or job.id)}" {how}.',
        note="The output file has what it printed.",
    )


def job_wait_notice(job: Job, lines: str) -> TaskEnd:
    """Return the notice that a running background command seems to wait for an input. `lines`: its last output."""
    return TaskEnd(
        task_id=job.id,
        tool_use_id=job.tool_use_id,
        output_file=str(job.file),
        status="",
        summary=f'Background command "{_quote(job.description or job.command or job.id)}" runs, but is silent: '
        "it seems to wait for an input, and gets none.",
        result=lines,
        note="The result has its last lines. Stop it with TaskStop, and run it again with the input given: by a flag "
        "that answers (--yes), by a pipe (printf 'y\\n' | …), or by a file.",
    )


def _quote(text: str) -> str:
    """Return text of others that cannot end the quotes around it."""
    return text.replace('"', "'")


def prompt_block(sender: str, run: SubagentRun, tags: RuntimeTags, text: str) -> Block:
    """Return the block of a text for a sub-agent: its owner's text is its job, that of others comes as a message."""
    whose = run.owner in {"", sender}
    return text_block(text if whose else tags.message(sender, text))


def subagent_event(run: SubagentRun) -> SubagentChanged:
    """Return its state as an event."""
    state = run.state if not run.is_running else "background" if run.background else "running"
    return SubagentChanged(
        member=run.owner, agent=run.id, state=state, kind=run.agent_type, description=run.description, name=run.name
    )


def is_running_error(run: SubagentRun) -> TeamRefused:
    """Return the error for resuming a running one."""
    do = [f'SendMessage with to "{run.id}" reaches it now.']
    return TeamRefused("team-refused", f"{run.id} is running", do=do, note="nothing was started")


def usage_text(run: SubagentRun) -> str:
    return f"total_tokens: {run.tokens}\ntool_uses: {run.tool_calls}\nduration_ms: {run.duration_ms}"


def result_facts(run: SubagentRun, prompt: str) -> dict[str, object]:
    """Return the fields of a result in the foreground, for programs."""
    ended = "budget_exceeded" if run.limit and is_cap(run.limit) else run.state
    return {
        "status": ended,
        "prompt": prompt,
        "agentId": run.id,
        "content": [text_block(run.text)] if run.text else [],
        "totalDurationMs": run.duration_ms,
        "totalTokens": run.tokens,
        "totalToolUseCount": run.tool_calls,
        "usage": (run.usage or Usage()).as_json(),
    }


def background_facts(run: SubagentRun, prompt: str, *, can_read: bool) -> dict[str, object]:
    """Return the fields of a start in the background, for programs."""
    return {
        "status": "async_launched",
        "agentId": run.id,
        "description": run.description,
        "prompt": prompt,
        "outputFile": str(run.output_file),
        "canReadOutputFile": can_read,
    }


class OutputFile:
    """The output file of a run, written live: its texts, a line for each call, its end. Never raises."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def write_head(self, run: SubagentRun) -> None:
        """Write the head, so that the file exists from the start."""
        head = f"[{run.id}: {run.agent_type}, {run.description}]" if run.generation == 1 else "[it continues]"
        self._write(f"{head}\n")

    def write_answer(self, content: list[Block]) -> None:
        """Write an answer of the model."""
        lines: list[str] = []
        for block in content:
            if block["type"] == "text" and block["text"].strip():
                lines.append(str(block["text"]))
            elif block["type"] == "tool_use":
                lines.append(f"[{block['name']} {str(block['input'])[:_MAX_INPUT_CHARS]}]")
        self._write("".join(f"{line}\n" for line in lines))

    def write_end(self, run: SubagentRun) -> None:
        why = f": {run.failure_reason}" if run.failure_reason else ""
        self._write(f"[{run.state}{why}]\n")

    def _write(self, text: str) -> None:
        try:
            fd = self._open()
            try:
                os.write(fd, text.encode("utf-8", "replace"))
            finally:
                os.close(fd)
        except OSError:
            pass  # the transcript has all of it

    def _open(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._path, flags, 0o600)
