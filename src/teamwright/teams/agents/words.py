"""What is said of a sub-agent or a job that ended: the notice to its owner (tags as observed), and the file of a run.

Knows a run and a job; tells nobody.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from teamwright.agent.agent import REPEATS
from teamwright.agent.job_journal import Job
from teamwright.protocol.blocks import Block, text_block
from teamwright.protocol.envelope import RuntimeTags, harmless
from teamwright.protocol.errors import TeamRefused
from teamwright.protocol.events import AgentChanged
from teamwright.protocol.usage import Usage
from teamwright.teams.agents.run import Run

_TAGS = ("task-id", "tool-use-id", "output-file", "status", "summary", "result", "usage")
_OWN_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(_TAGS)})\b)", re.IGNORECASE)

_SHOWN = 200
"""Characters of a call's input that the file shows."""


def notification(run: Run) -> str:
    """The end of a background sub-agent, as its owner reads it inside the runtime's tag."""
    tags = [
        ("task-id", run.id),
        ("tool-use-id", run.call),
        ("output-file", str(run.file)),
        ("status", run.state),
        ("summary", summary(run)),
        ("result", run.text),
    ]
    lines = [f"<{tag}>{_inside(text)}</{tag}>" for tag, text in tags if text]
    lines.append(f"<usage>{usage(run)}</usage>")
    return "\n".join([*lines, _next(run)]).rstrip()


def job_notification(job: Job) -> str:
    """The end of a background command, as its owner reads it inside the runtime's tag (tags as observed)."""
    how = f"{job.state} (exit code {job.exit_code})" if job.exit_code is not None else job.state
    if job.state == "killed":
        how = "was killed: it ended with the process that ran it"
    what = _inside(job.description or job.command or job.id)
    return (
        f"<task-id>{job.id}</task-id>\n<output-file>{job.file}</output-file>\n"
        f"<status>{job.state}</status>\n<summary>Background command {what} {how}"
        "</summary>\nRead the output file for what it printed."
    )


def _inside(text: str) -> str:
    """Text of others inside the tags of a notice: it can neither close one nor begin another."""
    return _OWN_TAG.sub("&lt;", harmless(text))


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


def summary(run: Run) -> str:
    """How it ended, in a line."""
    what = f'Agent "{run.description}" {run.state}'
    if run.why:
        what += f": {run.why}"
    if run.unread:
        what += f"; {run.unread} message{'s' if run.unread > 1 else ''} to it were not read"
    return what


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


def _next(run: Run) -> str:
    if run.state == "completed":
        return ""
    partly = "The result is what it had said until then. " if run.text else ""
    return f'{partly}Agent with resume "{run.id}" goes on with it, nothing of its conversation is lost.'


class RunFile:
    """The file of a run, written as it goes: what it says, a line for each call, how it ended. Never raises."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, run: Run) -> None:
        """The file is there from the first moment on."""
        head = f"[{run.id}: {run.kind}, {run.description}]" if run.generation == 1 else "[it goes on]"
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
