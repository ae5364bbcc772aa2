"""Texts about sub-agents and background commands: the notices of their ends, results for programs, the file of a run.

Depends on runs, jobs and envelopes. The delivery of notices is left to others.
"""

from __future__ import annotations

import os
from pathlib import Path

from teamwright.agent.agent import REPEATS
from teamwright.agent.job_journal import Job
from teamwright.protocol.blocks import Block, text_block
from teamwright.protocol.envelope import RuntimeTags, harmless
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import AgentChanged
from teamwright.protocol.usage import Usage
from teamwright.teams.agents.run import Run

_SHOWN = 200
"""Characters of a call's input that the file shows."""


def notification(run: Run) -> str:
    """Return the end of a background sub-agent as its owner reads it: plain sentences, the sub-agent's own text last.

    `run` has ended. The runtime's keyed tag around them is left to the caller.
    """
    ids = [f'task_id "{run.id}"', f'tool_use_id "{run.call}"' if run.call else ""]
    how = "was killed" if run.state == "killed" else run.state
    reason = f": {_line(run.why).rstrip('.')}" if run.why else ""
    lines = [f'Sub-agent "{_quoted(run.description)}" ({", ".join(filter(None, ids))}) {how}{reason}.']
    if run.unread:
        lines.append(f"It ended before it read {run.unread} message{'s' if run.unread > 1 else ''}.")
    lines.append(f"Its output file: {run.file}")
    lines.append(f"It used {run.tokens} tokens and {run.tools} tool calls in {run.duration_ms} ms.")
    if run.state != "completed" and may_continue(run):
        lines.append(f'To continue it with its whole conversation, call Agent with resume "{run.id}".')
    if run.text:
        head = "Its result:" if run.state == "completed" else "Its text until then:"
        lines.append(f"{head}\n\n{harmless(run.text)}")
    return "\n".join(lines)


def may_continue(run: Run) -> bool:
    """Return whether it helps to continue a sub-agent that ended: not after a refused request, nor at a spent cap."""
    end = run.end
    if end is None or run.state == "killed":
        return True
    return end.failure.retriable if end.failure is not None else end.stop != "limit"


def job_notification(job: Job) -> str:
    """Return the end of a background command as its owner reads it, in plain sentences.

    `job` has ended. The runtime's keyed tag around them is left to the caller.
    """
    how = job.state if job.state in {"completed", "failed"} else f"was {job.state}"
    if job.state == "killed":
        how += ": it ended with the process that ran it"
    elif job.exit_code is not None:
        how += f" with exit code {job.exit_code}"
    what = _quoted(job.description or job.command or job.id)
    return (
        f'Background command "{what}" (task_id "{job.id}") {how}.\nRead its output file for what it printed: {job.file}'
    )


def _quoted(text: str) -> str:
    """Text of others between double quotes: it can neither end the quotes nor begin a line."""
    return _line(text).replace('"', "'")


def _line(text: str) -> str:
    return harmless(" ".join(text.split()))


def words_from(sender: str, run: Run, tags: RuntimeTags, text: str) -> Block:
    """Words for a sub-agent: its owner's are its job, those of others come as a message."""
    whose = run.owner in {"", sender}
    return text_block(text if whose else tags.message(sender, text))


def changed(run: Run) -> AgentChanged:
    """How it stands, as an event."""
    state = run.state if not run.running else "background" if run.background else "running"
    return AgentChanged(
        member=run.owner, agent=run.id, state=state, kind=run.kind, description=run.description, name=run.name
    )


def it_runs(run: Run) -> TeamRefused:
    """The error for going on with one that runs."""
    do = [f'SendMessage with to "{run.id}" reaches it now.']
    return TeamRefused("team-refused", f"{run.id} is running", do=do, note="nothing was started")


def usage(run: Run) -> str:
    """What it used."""
    return f"total_tokens: {run.tokens}\ntool_uses: {run.tools}\nduration_ms: {run.duration_ms}"


def facts(run: Run, prompt: str) -> dict[str, object]:
    """The fields of a result in the foreground, for programs."""
    ended = "budget_exceeded" if run.limit not in {"", REPEATS} else run.state
    return {
        "status": ended,
        "prompt": prompt,
        "agentId": run.id,
        "content": [text_block(run.text)] if run.text else [],
        "totalDurationMs": run.duration_ms,
        "totalTokens": run.tokens,
        "totalToolUseCount": run.tools,
        "usage": (run.usage or Usage()).as_json(),
    }


def launched_facts(run: Run, prompt: str, *, can_read: bool) -> dict[str, object]:
    """The fields of a start in the background, for programs."""
    return {
        "status": "async_launched",
        "agentId": run.id,
        "description": run.description,
        "prompt": prompt,
        "outputFile": str(run.file),
        "canReadOutputFile": can_read,
    }


class RunFile:
    """The file of a run, written as it goes: what it says, a line for each call, how it ended. Never raises."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, run: Run) -> None:
        """The file is there from the first moment on."""
        head = f"[{run.id}: {run.kind}, {run.description}]" if run.generation == 1 else "[it continues]"
        self._write(f"{head}\n")

    def said(self, content: list[Block]) -> None:
        """An answer of the model."""
        lines: list[str] = []
        for block in content:
            if block["type"] == "text" and block["text"].strip():
                lines.append(str(block["text"]))
            elif block["type"] == "tool_use":
                lines.append(f"[{block['name']} {str(block['input'])[:_SHOWN]}]")
        self._write("".join(f"{line}\n" for line in lines))

    def end(self, run: Run) -> None:
        """How it came to its end."""
        why = f": {run.why}" if run.why else ""
        self._write(f"[{run.state}{why}]\n")

    def _write(self, text: str) -> None:
        try:
            fd = self._opened()
            try:
                os.write(fd, text.encode("utf-8", "replace"))
            finally:
                os.close(fd)
        except OSError:
            pass  # the transcript has all of it

    def _opened(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            return os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            return os.open(self._path, flags, 0o600)
