"""The list of agent types in the Agent tool: each type with its description and its tools, within one budget.

Depends on agent definitions. Finding the definitions, and the tool that shows the list, are left to others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from teamwright.agent.agent_type import AgentType
from teamwright.protocol.values import dataclass

LIST_BYTES = 4_800
"""Bytes of the whole list: 1,200 tokens at four bytes a token."""

SHORTEST = 60
"""Characters that a description keeps before its type is only named."""

NAMES_BYTES = 800
"""Bytes for types that are only named."""

TITLE = "Agent types:"
LOOK_UP = (
    "A description that ends with … is shortened: Agent with this `subagent_type` and an empty `prompt` returns the "
    "whole one and starts nothing."
)

_SENTENCE_END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)[.!?][\"')]*(?= )")


@dataclass(frozen=True, slots=True)
class TypeList:
    """The list as a model reads it, and the names of the types whose descriptions are shortened in it."""

    text: str
    shortened: frozenset[str]


class _Row(NamedTuple):
    name: str
    about: str
    tools: str

    def line(self, longest: int) -> str:
        about = _cut(self.about, longest)
        return f"- {self.name}: {about} ({self.tools})" if about else f"- {self.name} ({self.tools})"


def type_list(kinds: Iterable[AgentType]) -> TypeList:
    """Return the list of these types, in their order. Beyond the budget the longest descriptions are shortened."""
    return _listed(tuple(_Row(kind.name, " ".join(kind.description.split()), kind.tools_in_words) for kind in kinds))


@lru_cache(maxsize=8)
def _listed(rows: tuple[_Row, ...]) -> TypeList:
    if not rows:
        return TypeList("", frozenset())
    longest = max(len(row.about) for row in rows)
    whole = _text(rows, longest)
    if _size(whole) <= LIST_BYTES:
        return TypeList(whole, frozenset())
    described = len(rows) if _size(_text(rows, SHORTEST)) <= LIST_BYTES else _most_described(rows)
    shown, named = rows[:described], rows[described:]
    low = SHORTEST
    while low < longest:  # the largest length with which the list fits
        middle = (low + longest + 1) // 2
        low, longest = (middle, longest) if _size(_text(shown, middle, named)) <= LIST_BYTES else (low, middle - 1)
    shortened = {row.name for row in shown if len(row.about) > low}
    return TypeList(_text(shown, low, named), frozenset(shortened.union(row.name for row in named)))


def _most_described(rows: tuple[_Row, ...]) -> int:
    """Return how many types fit when each description is as short as possible, and the other names follow."""
    left = LIST_BYTES - NAMES_BYTES - _size(TITLE) - _size(LOOK_UP)
    for number, row in enumerate(rows):
        left -= _size(row.line(SHORTEST)) + 1
        if left < 0:
            return number
    return len(rows)


def _text(rows: Sequence[_Row], longest: int, named: Sequence[_Row] = ()) -> str:
    lines = [TITLE, *(row.line(longest) for row in rows)]
    if named:
        lines.append(f"Further types, by name: {_fitting([row.name for row in named])}")
    if named or any(len(row.about) > longest for row in rows):
        lines.append(LOOK_UP)
    return "\n".join(lines)


def _fitting(names: Sequence[str]) -> str:
    left, count = NAMES_BYTES - 60, 0
    for name in names:
        left -= _size(name) + 2
        if left < 0:
            break
        count += 1
    more = len(names) - count
    return ", ".join(names[:count]) + (f" and {more} more" if more else "")


def _cut(text: str, longest: int) -> str:
    """Return the text whole, or its first sentences; of a first sentence that is too long, its first words."""
    if len(text) <= longest:
        return text
    ends = [found.end() for found in _SENTENCE_END.finditer(text, 0, longest + 1)]
    kept = text[: ends[-1]] if ends else text[:longest].rpartition(" ")[0] or text[:longest]
    return f"{kept} …"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
