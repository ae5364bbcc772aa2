"""Sub-agents of a session on disk: begun, moved to the background, ended, settled; what a kill does not take away.

`agents.jsonl` in the session's directory, a line an occurrence. A run is settled when its owner's transcript has its
end, or its end was read, or nobody is left to be told. Knows no agent. Format: docs/formats/runs.md.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, fields
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, cast

from teamwright.agent.definition import Bounds
from teamwright.protocol.blocks import encode
from teamwright.protocol.budget import Budget
from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import StorageError, UsageError
from teamwright.storage.jsonl import Journal, read_lines
from teamwright.teams.agents.run import Run, RunState
from teamwright.teams.spec import SpawnSpec

AGENTS = "agents.jsonl"
VERSION = 1
TEXT_KEPT = 20_000
"""Characters of a final text that the journal has too; the transcript has all of it."""

MORE = "\n[… its output file has all of it]"
"""Ends a text of which the journal has the beginning."""

LOST = "it ended with the process that ran it"
"""Why one was killed whose end nobody noted."""

_NOT_KEPT = frozenset({"prompt", "call", "name"})
_ENDED: dict[str, RunState] = {"completed": "completed", "failed": "failed", "killed": "killed"}


class RunJournal:
    """The journal of the session that is run now. What the disk refuses is not noted: an agent runs all the same."""

    def __init__(self, session: Path) -> None:
        self.path = session / AGENTS
        self._journal: Journal | None = None
        self._settled: set[str] = set()
        self.runs = self._read()

    def begun(self, run: Run) -> None:
        """A generation begins."""
        self._note(
            run,
            "begun",
            owner=run.owner,
            file=str(run.file),
            transcript=str(run.transcript),
            name=run.name,
            call=run.call,
            key=run.key,
            background=run.background,
            answers=run.answers_before,
            about=dict(run.about),
        )

    def moved(self, run: Run) -> None:
        """It went to the background."""
        self._note(run, "background")

    def ended(self, run: Run) -> None:
        """How it came to its end, with what it gave: noted before anybody is told."""
        self._note(
            run,
            "ended",
            state=run.state,
            why=run.why,
            text=run.text if len(run.text) <= TEXT_KEPT else run.text[:TEXT_KEPT] + MORE,
            tokens=run.tokens,
            tools=run.tools,
            ms=run.duration_ms,
        )

    def settle(self, run: Run) -> None:
        """Whoever waited knows of the end, or nobody is there who waits."""
        if run.notice_key not in self._settled:
            self._settled.add(run.notice_key)
            self._note(run, "settled")

    def lost(self) -> list[Run]:
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

    def _note(self, run: Run, what: str, **more: object) -> None:
        fact = {"v": VERSION, "type": what, "id": run.id, "generation": run.generation, "at": now_ms(), **more}
        with contextlib.suppress(StorageError):
            if self._journal is None:
                self._journal = Journal.open(self.path)
            self._journal.append(encode(fact))

    def _read(self) -> dict[str, Run]:
        runs: dict[str, Run] = {}
        with contextlib.suppress(OSError):
            for line in read_lines(self.path):
                with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                    self._take(cast("dict[str, Any]", json.loads(line)), runs)
        for run in runs.values():
            if run.running:
                run.state, run.why = "killed", LOST
            run.over()
        return runs

    def _take(self, fact: dict[str, Any], runs: dict[str, Run]) -> None:
        id, run = str(fact["id"]), runs.get(str(fact["id"]))
        match fact["type"]:
            case "begun":
                made = Run(id, str(fact["owner"]), Path(str(fact["file"])), Path(str(fact["transcript"])))
                made.name, made.call, made.key = str(fact["name"]), str(fact["call"]), str(fact["key"])
                made.background, made.about = bool(fact["background"]), dict(fact["about"])
                made.generation, made.started_ms = int(fact["generation"]), int(fact["at"])
                made.answers_before = int(fact["answers"])
                if run is not None and run.generation == made.generation:
                    made.started_ms = run.started_ms  # a kill cut it off, and it went on
                runs.pop(id, None)
                runs[id] = made
            case "background" if run is not None:
                run.background = True
            case "ended" if run is not None:
                run.state, run.why, run.text = _ENDED[fact["state"]], str(fact["why"]), str(fact["text"])
                run.tokens, run.tools, run.duration_ms = int(fact["tokens"]), int(fact["tools"]), int(fact["ms"])
            case "settled" if run is not None:
                self._settled.add(f"agent-{id}-{int(fact['generation'])}")
            case _:
                pass


def kept(spec: SpawnSpec) -> dict[str, Any]:
    """What is noted of a spec: all that an agent was started with, but for its words."""
    made: dict[str, Any] = {}
    for name, default in _kept_fields():
        value: object = getattr(spec, name)
        if value is None or value is default or value == default:
            continue
        if isinstance(value, Bounds):
            made[name] = dict(_bounds(value))
        elif isinstance(value, Budget):
            made[name] = value.as_json()
        elif isinstance(value, Path):
            made[name] = str(value)
        elif isinstance(value, str | int | float):
            made[name] = value
    return made | {"agent_type": spec.agent_type}


@cache
def _kept_fields() -> tuple[tuple[str, object], ...]:
    return tuple((one.name, one.default) for one in fields(SpawnSpec) if one.name not in _NOT_KEPT)


@lru_cache(maxsize=64)
def _bounds(bounds: Bounds) -> dict[str, Any]:
    """The same for all agents of a kind: shared, not to be changed."""
    return asdict(bounds)


def spec_of(run: Run, prompt: str) -> SpawnSpec:
    """The spec of a run that is gone on with. What a newer version noted and this one does not know is left out."""
    known: dict[str, Any] = {}
    for one in fields(SpawnSpec):
        if one.name not in run.about or one.name in _NOT_KEPT:
            continue
        value: Any = run.about[one.name]
        if one.name == "budget":
            with contextlib.suppress(UsageError):
                known[one.name] = Budget.from_json(value)
        elif one.name == "bounds":
            parts = cast("dict[str, Any]", value)
            known[one.name] = Bounds(**{key: _tuple(part) for key, part in parts.items()})
        else:
            known[one.name] = Path(str(value)) if one.name == "cwd" else value
    return SpawnSpec(prompt=prompt, name=run.name, **known)


def _tuple(part: Any) -> Any:
    """A list of a file is a tuple here."""
    return tuple(cast("list[Any]", part)) if isinstance(part, list) else part
