"""A crew for tests at a terminal: ada and ben, each at a gate that the test opens, and what stands below the line.

The lead spawns them when it is told `go`, waits at its own gate when told `wait`, ends its team when told `end it`.
"""

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from teamwright.testing.model_server_replies import Answer
from tests.support.waits import wait_until
from tests.ui.terminal_driver import Person
from tests.ui.test_terminal_session import all_told, bash, told, who

NAMES = ("ada", "ben")
LINE = re.compile(r"(@\w+)?>( |$)|allow\?|end \w+ for good")
"""What stands before a line that is being typed."""


def spawn(names: tuple[str, ...] = NAMES, **more: Any) -> Answer:
    tasks = [("TaskCreate", {"subject": f"job of {name}", "description": "do it"}) for name in names]
    return Answer(tools=[*tasks, *(_start(n, name, **more) for n, name in enumerate(names, 1))])


def _start(number: int, name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return "Agent", {"description": "start", "prompt": f"Take task {number}.", "name": name, **more}


def crew(body: dict) -> Answer | str:
    """What the lead and its members say."""
    name, words = who(body), told(body)
    if name == "lead":
        return lead(body, words)
    if "say hello" in words:
        return f"Hello from {name}.\nThe second line."
    if found := re.search(r"Take task (\d)\.", words):
        return Answer(tools=[("TaskUpdate", {"taskId": found[1], "status": "in_progress", "owner": name})])
    if "through" in words:
        return f"{name} is through."
    return bash(f"cat gate-{name}")


def lead(body: dict, words: str) -> Answer | str:
    """The lead's part."""
    if "wait here" in words:
        return bash("cat gate-lead")
    if "are they?" in words:
        return "Yes, they are."
    if "end it" in words:
        gone = [("TaskUpdate", {"taskId": number, "status": "deleted"}) for number in ("1", "2")]
        return Answer(tools=[*gone, ("TeamDelete", {})])
    if "through" in words and "cat gate-lead" in json.dumps(body["messages"][-2]):
        return "The lead is through."
    if "tool_use" not in all_told(body):
        both = spawn()
        return Answer(tools=both.tools[:-1])  # ben is started after ada, so that their order is always the same
    return "They are at it." if "Take task 2." in all_told(body) else Answer(tools=[_start(2, "ben")])


@pytest.fixture
def gates(repo: Path) -> Path:
    """A repository with a gate for everybody."""
    for name in ("lead", *NAMES):
        os.mkfifo(repo / f"gate-{name}")
    return repo


def opens(repo: Path, name: str) -> None:
    """Let whoever waits at this gate go on, once somebody does."""
    gate = os.fdopen(wait_until(lambda: writer_of(repo / f"gate-{name}"), f"a reader at the gate of {name}"), "w")
    with gate:
        gate.write("through\n")


def writer_of(gate: Path) -> int | None:
    """A descriptor that writes into the pipe; None while nobody reads from it."""
    try:
        return os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as problem:
        if problem.errno != errno.ENXIO:
            raise
        return None


def below(rows: list[str]) -> list[str]:
    """What stands below the line that is being typed."""
    at = max((n for n, row in enumerate(rows) if LINE.match(row)), default=len(rows))
    return [row for row in rows[at + 1 :] if row]


def last(rows: list[str]) -> str:
    """The last row of the screen: the status line; empty while the screen is drawn anew."""
    return (below(rows) or [""])[-1]


def row_of(rows: list[str], name: str) -> str:
    """The row of this member below the line; empty when there is none."""
    return next((row for row in below(rows) if name in row[:20].split()), "")


def starts(person: Person) -> None:
    """Have the crew at work, each at its gate."""
    person.says("go")
    person.sees("They are at it.")
    for name in NAMES:
        person.until(lambda rows, name=name: f"cat gate-{name}" in row_of(rows, name))
