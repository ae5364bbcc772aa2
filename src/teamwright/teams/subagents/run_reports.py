"""Texts about sub-agents and background commands: the notices of their ends, results for programs, the file of a run.

Depends on runs, jobs and envelopes. The delivery of notices is left to others.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.agent.agent import is_cap
from teamwright.agent.job_journal import Job
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import SubagentChanged
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.runtime_tags import RuntimeTags, escape_tags
from teamwright.protocol.usage import Usage
from teamwright.teams.subagents.subagent_run import SubagentRun

_MAX_INPUT_CHARS = 200
"""Characters of a call's input that the file shows."""


def end_notice(run: SubagentRun) -> str:
    """Return the end of a background sub-agent as its owner reads it: plain sentences, the sub-agent's own text last.

    `run` has ended. The runtime's keyed tag around them is left to the caller.
    """
    ids = [f'task_id "{run.id}"', f'tool_use_id "{run.call}"' if run.call else ""]
    how = "was killed" if run.state == "killed" else run.state
    reason = f": {_flatten(run.failure_reason).rstrip('.')}" if run.failure_reason else ""
    lines = [f'Sub-agent "{_quote(run.description)}" ({", ".join(filter(None, ids))}) {how}{reason}.']
    if run.unread_messages:
        lines.append(f"It ended before it read {run.unread_messages} message{'s' if run.unread_messages > 1 else ''}.")
    lines.append(f"Its output file: {run.output_file}")
    lines.append(f"It used {run.tokens} tokens and {run.tool_calls} tool calls in {run.duration_ms} ms.")
    if run.state != "completed" and may_continue(run):
        lines.append(f'To continue it with its whole conversation, call Agent with resume "{run.id}".')
    if run.text:
        head = "Its result:" if run.state == "completed" else "Its text until then:"
        lines.append(f"{head}\n\n{escape_tags(run.text)}")
    return "\n".join(lines)


def may_continue(run: SubagentRun) -> bool:
    """Return True when it helps to continue a sub-agent that ended: not after a refused request, nor at a spent cap."""
    end = run.end
    if end is None or run.state == "killed":
        return True
    return end.failure.retriable if end.failure is not None else end.stop != "limit"


def job_end_notice(job: Job) -> str:
    """Return the end of a background command as its owner reads it, in plain sentences.

    `job` has ended. The runtime's keyed tag around them is left to the caller.
    """
    how = job.state if job.state in {"completed", "failed"} else f"was {job.state}"
    if job.timed_out_s:
        how += f": that was its time limit of {job.timed_out_s:g} s"
    elif job.state == "killed":
        how += ": it ended with the process that ran it"
    elif job.exit_code is not None:
        how += f" with exit code {job.exit_code}"
    what = _quote(job.description or job.command or job.id)
    return (
        f'Background command "{what}" (task_id "{job.id}") {how}.\nRead its output file for what it printed: {job.file}'
    )


def _quote(text: str) -> str:
    """Quote other authors' text: it can neither end the quotes nor begin a line."""
    return _flatten(text).replace('"', "'")


def _flatten(text: str) -> str:
    return escape_tags(" ".join(text.split()))


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
    """Return its usage."""
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
        """Write the end."""
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
