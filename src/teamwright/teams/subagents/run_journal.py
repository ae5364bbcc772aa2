"""Sub-agents of a session on disk: begun, moved to the background, ended, settled; what a kill does not take away.

`agents.jsonl` in the session's directory, a line an occurrence. A run is settled when its owner's transcript has its
end, or its end was read, or nobody is left to be told. Knows no agent. Format: docs/formats/sub-agent-runs.md.
"""

from __future__ import annotations

import contextlib
import json
import re
from contextlib import suppress
from dataclasses import asdict, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

from teamwright.agent.agent_type import FORK_TYPE, AgentBounds
from teamwright.agent.conversation import find_delivered_ids, read_header
from teamwright.agent.fork import is_fork
from teamwright.protocol.budget import Budget
from teamwright.protocol.clock import iso_time, now_ms
from teamwright.protocol.errors import StorageError, UsageError
from teamwright.protocol.messages import encode, message_text
from teamwright.storage.jsonl import Journal, read_backward, read_lines
from teamwright.teams.spawn_spec import SpawnSpec
from teamwright.teams.subagents.run import RunState, SubagentRun

_ID = re.compile(r"a[0-9a-f]{6}")


def is_run_id(text: str) -> bool:
    """Whether it has the form of a sub-agent's id."""
    return _ID.fullmatch(text) is not None


def find_by_transcript(id: str, transcript: Path, file: Path) -> SubagentRun | None:
    """The run of which only this transcript is left; None when it is none of a sub-agent."""
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
    """Whether the transcript holds these words, told or waiting to be."""
    if find_delivered_ids(transcript, {id}):
        return True
    mark, queued = f'"id":"{id}"'.encode(), b'{"type":"queued"'
    return any(line.startswith(queued) and mark in line for line in read_backward(transcript))


def last_text(run: SubagentRun) -> str:
    """The newest text that it said in its newest generation; empty when it said none, or nothing can be read."""
    begun = iso_time(run.started_ms)
    with suppress(StorageError, OSError, ValueError, KeyError, TypeError):
        for line in read_backward(run.transcript):
            if not line.startswith(b'{"type":"assistant"'):
                continue
            fact = cast("dict[str, Any]", json.loads(line))
            if str(fact["at"]) < begun:
                break
            if text := message_text(fact["message"]["content"]):
                return text
    return ""


JOURNAL_NAME = "agents.jsonl"
VERSION = 1
MAX_TEXT = 20_000
"""Characters of a final text that the journal has too; the transcript has all of it."""

MORE = "\n[… its output file has all of it]"
"""Ends a text of which the journal has the beginning."""

PROCESS_ENDED = "it ended with the process that ran it"
"""Why one was killed whose end nobody noted."""

_OMITTED_FIELDS = frozenset({"prompt", "call", "name"})
_END_STATES: dict[str, RunState] = {"completed": "completed", "failed": "failed", "killed": "killed"}


class RunJournal:
    """The journal of the session that is run now. What the disk refuses is not noted: an agent runs all the same."""

    def __init__(self, session: Path) -> None:
        self.path = session / JOURNAL_NAME
        self._journal: Journal | None = None
        self._settled: set[str] = set()
        self.runs = self._read()

    def record_start(self, run: SubagentRun) -> None:
        """A generation begins."""
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
        """It went to the background."""
        self._append(run, "background")

    def record_end(self, run: SubagentRun) -> None:
        """How it came to its end, with what it gave: noted before anybody is told."""
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
        """Whoever waited knows of the end, or nobody is there who waits."""
        if run.notice_key not in self._settled:
            self._settled.add(run.notice_key)
            self._append(run, "settled")

    def unreported(self) -> list[SubagentRun]:
        """Runs of earlier lives whose owner may not have been told of their end; oldest first.

        One in the foreground is told of by its call; one that no call began was a person's.
        """
        return [
            run
            for run in self.runs.values()
            if (run.background or not run.key) and run.ended.is_set() and run.notice_key not in self._settled
        ]

    def close(self) -> None:
        """Close the file; harmless when closed. A later note opens it again."""
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
                run.state, run.failure_reason = "killed", PROCESS_ENDED
            run.set_ended()
        return runs

    def _apply(self, fact: dict[str, Any], runs: dict[str, SubagentRun]) -> None:
        id, run = str(fact["id"]), runs.get(str(fact["id"]))
        match fact["type"]:
            case "begun":
                made = SubagentRun(id, str(fact["owner"]), Path(str(fact["file"])), Path(str(fact["transcript"])))
                made.name, made.call, made.key = str(fact["name"]), str(fact["call"]), str(fact["key"])
                made.background, made.spec_fields = bool(fact["background"]), dict(fact["about"])
                made.generation, made.started_ms = int(fact["generation"]), int(fact["at"])
                made.answers_before = int(fact["answers"])
                if run is not None and run.generation == made.generation:
                    made.started_ms = run.started_ms  # a kill cut it off, and it went on
                runs.pop(id, None)
                runs[id] = made
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
    """What is noted of a spec: all that an agent was started with, but for its words."""
    made: dict[str, Any] = {}
    for name, default in _stored_fields():
        value: object = getattr(spec, name)
        if value is None or value is default or value == default:
            continue
        if isinstance(value, AgentBounds):
            made[name] = dict(_bounds(value))
        elif isinstance(value, Budget):
            made[name] = value.as_json()
        elif isinstance(value, Path):
            made[name] = str(value)
        elif isinstance(value, str | int | float):
            made[name] = value
    return made | {"agent_type": spec.agent_type}


@cache
def _stored_fields() -> tuple[tuple[str, object], ...]:
    return tuple((one.name, one.default) for one in fields(SpawnSpec) if one.name not in _OMITTED_FIELDS)


@lru_cache(maxsize=64)
def _bounds(bounds: AgentBounds) -> dict[str, Any]:
    """The same for all agents of a kind: shared, not to be changed."""
    return asdict(bounds)


def restore_spec(run: SubagentRun, prompt: str) -> SpawnSpec:
    """The spec of a run that is gone on with. What a newer version noted and this one does not know is left out."""
    known: dict[str, Any] = {}
    for one in fields(SpawnSpec):
        if one.name not in run.spec_fields or one.name in _OMITTED_FIELDS:
            continue
        value: Any = run.spec_fields[one.name]
        if one.name == "budget":
            with contextlib.suppress(UsageError):
                known[one.name] = Budget.from_json(value)
        elif one.name == "bounds":
            parts = cast("dict[str, Any]", value)
            known[one.name] = AgentBounds(**{key: _tuple(part) for key, part in parts.items()})
        else:
            known[one.name] = Path(str(value)) if one.name == "cwd" else value
    return SpawnSpec(prompt=prompt, name=run.name, **known)


def _tuple(part: Any) -> Any:
    """A list of a file is a tuple here."""
    return tuple(cast("list[Any]", part)) if isinstance(part, list) else part
