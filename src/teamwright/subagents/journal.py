"""The journal of a session's sub-agents on disk, and their runs, found by owner, id, name or call.

`agents.jsonl` in the session's directory has one line for each event: begun, moved to the background, ended, reported.
A run is settled when its owner's transcript has its end, its end was read, or its owner is gone. Starting and stopping
runs is left to `registry`. Format: docs/formats/runs.md.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

from teamwright.agent.agent_type import FORK_TYPE, AgentBounds
from teamwright.agent.conversation import find_delivered_ids, read_header
from teamwright.agent.fork_origin import is_fork
from teamwright.protocol.errors import StorageError, UsageError
from teamwright.protocol.ids import iso_time, now_ms, parse_iso_ms
from teamwright.protocol.messages import encode, message_text
from teamwright.protocol.usage import NO_USAGE, Budget, Usage
from teamwright.storage.json_lines import Journal, read_backward, read_lines
from teamwright.storage.paths import make_private
from teamwright.subagents.subagent_run import RunState, SubagentRun, find_run
from teamwright.team_records.spawn_spec import SpawnSpec

_ID = re.compile(r"a[0-9a-f]{6}")


def is_run_id(text: str) -> bool:
    """Return True when the text has the form of a sub-agent's id."""
    return _ID.fullmatch(text) is not None


def find_by_transcript(id: str, transcript: Path, file: Path) -> SubagentRun | None:
    """Return the run of which only this transcript is left; None when it is not a sub-agent's."""
    with suppress(StorageError, OSError):
        header = read_header(transcript)
        if header is not None and header.get("agent_id") == id and header.get("member") == id:
            about = {"fork": True, "agent_type": FORK_TYPE.name} if is_fork(header) else {}
            run = SubagentRun(id, "", file, transcript, about, background=True, state="killed")
            run.failure_reason = "nothing but its transcript is left"
            run.set_ended()
            return run
    return None


def has_prompt(transcript: Path, id: str) -> bool:
    """Return True when the transcript contains this prompt, delivered or queued."""
    if find_delivered_ids(transcript, {id}):
        return True
    mark = f'"id":"{id}"'.encode()
    queued = b'{"type":"queued"'
    return any(line.startswith(queued) and mark in line for line in read_backward(transcript))


def restore_counts(run: SubagentRun) -> None:
    """Set the usage, duration and newest text of its newest generation, which no process recorded, from the transcript.

    An unreadable transcript changes nothing.
    """
    begun = iso_time(run.started_ms)
    usage = NO_USAGE
    tools = 0
    text = ""
    last_ms = run.started_ms
    with suppress(StorageError, OSError, ValueError, KeyError, TypeError):
        for line in read_backward(run.transcript):
            if not line.startswith(b'{"type":"assistant"'):
                continue
            fact = cast("dict[str, Any]", json.loads(line))
            if str(fact["at"]) < begun:
                break
            content = fact["message"]["content"]
            last_ms = max(last_ms, parse_iso_ms(str(fact["at"])) or 0)
            usage += Usage.from_json(fact["usage"])
            tools += sum(1 for block in content if block["type"] == "tool_use")
            text = text or message_text(content)
    run.usage = usage
    run.tokens = usage.tokens
    run.tool_calls = tools
    run.duration_ms = last_ms - run.started_ms
    run.text = run.text or text


READERS_DIRECTORY = "subagents"
"""The directory of a session in which other programs look for the transcripts of its sub-agents."""


def readers_transcript(session: Path, id: str) -> Path:
    """Return the path at which other programs look for a sub-agent's transcript; `session` is the directory."""
    return session / READERS_DIRECTORY / f"agent-{id}.jsonl"


def readers_metadata(transcript: Path) -> Path:
    """Return the path of the file beside that transcript that says which call started the sub-agent."""
    return transcript.with_suffix(".meta.json")


def show_to_readers(run: SubagentRun, parent: str) -> None:
    """Link a new sub-agent's transcript where other programs look for it. `parent` is the id of the sub-agent that
    started it; empty for a member's. A write error loses only the link.
    """
    link = readers_transcript(run.transcript.parent.parent, run.id)
    about = {"agentType": run.agent_type, "description": run.description, "toolUseId": run.call or None}
    with suppress(OSError, StorageError):
        make_private(link.parent)
        # Sub-agents start often: no draft of the file, which its readers may miss.
        with open(readers_metadata(link), "xb") as file:
            file.write(encode({**about, **({"parentAgentId": parent} if parent else {})}))
        link.symlink_to(Path("..", run.transcript.parent.name, run.transcript.name))


JOURNAL_NAME = "agents.jsonl"
VERSION = 1
MAX_TEXT = 20_000
"""Characters of a final text that the journal stores; the transcript has all of it."""

MORE = "\n[… its output file has all of it]"
"""The end of a text that the journal truncates."""

PROCESS_ENDED = "it ended with the process that ran it"
"""The cause of an end that no process recorded."""

_OMITTED_FIELDS = frozenset({"prompt", "call", "name", "beside"})
_END_STATES: dict[str, RunState] = {"completed": "completed", "failed": "failed", "killed": "killed"}


class RunJournal:
    """The journal of the running session. A write error loses only the record: the agent still runs."""

    def __init__(self, session: Path) -> None:
        self.path = session / JOURNAL_NAME
        self._journal: Journal | None = None
        self._settled: set[str] = set()
        self.runs = self._read()

    def record_start(self, run: SubagentRun) -> None:
        """Record the start of a generation."""
        self._append(
            run,
            "begun",
            owner=run.owner,
            file=str(run.output_file),
            transcript=str(run.transcript),
            name=run.name,
            call=run.call,
            key=run.key,
            background=run.background,
            answers=run.answers_before,
            about=dict(run.spec_fields),
        )

    def record_move(self, run: SubagentRun) -> None:
        """Record the move to the background."""
        self._append(run, "background")

    def record_end(self, run: SubagentRun) -> None:
        """Record the end with its result, before any notice."""
        self._append(
            run,
            "ended",
            state=run.state,
            why=run.failure_reason,
            text=run.text if len(run.text) <= MAX_TEXT else run.text[:MAX_TEXT] + MORE,
            tokens=run.tokens,
            tools=run.tool_calls,
            ms=run.duration_ms,
        )

    def record_reported(self, run: SubagentRun) -> None:
        """Record that the owner knows of the end, or is gone."""
        if run.notice_key not in self._settled:
            self._settled.add(run.notice_key)
            self._append(run, "settled")

    def unreported(self) -> list[SubagentRun]:
        """Return the runs of earlier processes whose owner may not know of their end; oldest first.

        The call of a foreground run reports its end; a run without a call was a person's.
        """
        return [
            run
            for run in self.runs.values()
            if (run.background or not run.key) and run.ended.is_set() and run.notice_key not in self._settled
        ]

    def close(self) -> None:
        """Close the file; harmless when closed. A later record opens it again."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _append(self, run: SubagentRun, what: str, **more: object) -> None:
        fact = {"v": VERSION, "type": what, "id": run.id, "generation": run.generation, "at": now_ms(), **more}
        with contextlib.suppress(StorageError):
            if self._journal is None:
                self._journal = Journal.open(self.path)
            self._journal.append(encode(fact))

    def _read(self) -> dict[str, SubagentRun]:
        runs: dict[str, SubagentRun] = {}
        with contextlib.suppress(OSError):
            for line in read_lines(self.path):
                with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                    self._apply(cast("dict[str, Any]", json.loads(line)), runs)
        for run in runs.values():
            if run.is_running:
                run.state = "killed"
                run.failure_reason = PROCESS_ENDED
            run.set_ended()
        return runs

    def _apply(self, fact: dict[str, Any], runs: dict[str, SubagentRun]) -> None:
        id = str(fact["id"])
        run = runs.get(id)
        match fact["type"]:
            case "begun":
                new_run = SubagentRun(id, str(fact["owner"]), Path(str(fact["file"])), Path(str(fact["transcript"])))
                new_run.name, new_run.call, new_run.key = str(fact["name"]), str(fact["call"]), str(fact["key"])
                new_run.background, new_run.spec_fields = bool(fact["background"]), dict(fact["about"])
                new_run.generation, new_run.started_ms = int(fact["generation"]), int(fact["at"])
                new_run.answers_before = int(fact["answers"])
                if run is not None and run.generation == new_run.generation:
                    new_run.started_ms = run.started_ms  # a kill interrupted it, and it was resumed
                runs.pop(id, None)
                runs[id] = new_run
            case "background" if run is not None:
                run.background = True
            case "ended" if run is not None:
                run.state, run.failure_reason, run.text = (
                    _END_STATES[fact["state"]],
                    str(fact["why"]),
                    str(fact["text"]),
                )
                run.tokens, run.tool_calls, run.duration_ms = int(fact["tokens"]), int(fact["tools"]), int(fact["ms"])
            case "settled" if run is not None:
                self._settled.add(f"agent-{id}-{int(fact['generation'])}")
            case _:
                pass


def stored_spec(spec: SpawnSpec) -> dict[str, Any]:
    """Return the stored fields of a spec: all but the prompt."""
    fields: dict[str, Any] = {}
    for name, default in _stored_fields():
        value: object = getattr(spec, name)
        if value is None or value is default or value == default:
            continue
        if isinstance(value, AgentBounds):
            fields[name] = dict(_bounds(value))
        elif isinstance(value, Budget):
            fields[name] = value.as_json()
        elif isinstance(value, Path):
            fields[name] = str(value)
        elif isinstance(value, str | int | float):
            fields[name] = value
    return fields | {"agent_type": spec.agent_type}


@cache
def _stored_fields() -> tuple[tuple[str, object], ...]:
    default = SpawnSpec(prompt="")
    return tuple((name, getattr(default, name)) for name in SpawnSpec.__struct_fields__ if name not in _OMITTED_FIELDS)


@lru_cache(maxsize=64)
def _bounds(bounds: AgentBounds) -> dict[str, Any]:
    """Return the fields of an agent type's bounds: shared by its agents, not to be changed."""
    return bounds.as_json()


def restore_spec(run: SubagentRun, prompt: str) -> SpawnSpec:
    """Return the spec of a resumed run. Unknown fields of a newer version are left out."""
    known: dict[str, Any] = {}
    for field in SpawnSpec.__struct_fields__:
        if field not in run.spec_fields or field in _OMITTED_FIELDS:
            continue
        value: Any = run.spec_fields[field]
        if field == "budget":
            with contextlib.suppress(UsageError):
                known[field] = Budget.from_json(value)
        elif field == "bounds":
            known[field] = AgentBounds.from_json(value)
        else:
            known[field] = Path(str(value)) if field in {"cwd", "worktree"} else value
    return SpawnSpec(prompt=prompt, name=run.name, **known)


class SubagentRuns:
    """The runs of one session. `session` is its directory; `transcript_path` returns the transcript of an id."""

    def __init__(self, session: Path, transcript_path: Callable[[str], Path]) -> None:
        self._transcript_path = transcript_path
        self._scratch = session / "output"
        self._journal = RunJournal(session)
        self._running: dict[str, SubagentRun] = {}
        """Runs that may be running: start checks do not slow down with the number of ended runs."""

    @property
    def runs(self) -> dict[str, SubagentRun]:
        """All runs of the session, of earlier processes too, oldest first."""
        return self._journal.runs

    def running_runs(self, owner: str | None = None, *, background: bool | None = None) -> list[SubagentRun]:
        """Return the running runs: of one owner if given, in the background or in the foreground if given."""
        return [
            run
            for run in self._running.values()
            if run.is_running and owner in {None, run.owner} and (background is None or run.background is background)
        ]

    def has_background_runs(self) -> bool:
        """Return True when any runs in the background: the end of all work waits for it."""
        return bool(self.running_runs(background=True))

    def find(self, text: str) -> SubagentRun | None:
        """Return the run of that id or name; a run that only has a transcript left is found by its id."""
        found = find_run(self.runs, text)
        if found is not None:
            return found
        id = text.strip()
        return (
            find_by_transcript(id, self._transcript_path(id), self._scratch / f"{id}.output") if is_run_id(id) else None
        )

    def find_by_call(self, key: str) -> SubagentRun | None:
        """Return the run that a call began before a kill."""
        return next((run for run in self.runs.values() if run.key == key), None)

    def unreported(self) -> list[SubagentRun]:
        """Return the runs of earlier processes whose end may be unreported, each with its last text."""
        lost = self._journal.unreported()
        for run in lost:
            if run.usage is None and run.failure_reason == PROCESS_ENDED:
                restore_counts(run)
        return lost

    def mark_reported(self, ids: Iterable[str]) -> None:
        """Mark the ends of these runs as reported."""
        for id in ids:
            self._journal.record_reported(self.runs[id])
