"""All agent types of a run, in order of precedence: roles, given ones, repository, user, plugins, built-in ones.

The first of several with one name is used; the others are shadowed. Each query checks the files and reads changed ones
again. The list for the Agent tool has each type with its description and its tools, within one budget.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

from teamwright.agent.agent_type import BUILT_IN, AgentType, built_in_types, find_agent_type
from teamwright.config.agent_types.definition_sources import DefinitionSources, FoundDefinition
from teamwright.config.team_definition import TeamDefinition, role_definitions
from teamwright.protocol.errors import UsageError

State: TypeAlias = Literal["used", "shadowed", "needs trust", "broken"]

ROLE = "team file"


class AgentTypeEntry(Struct, frozen=True):
    """One definition and its state. `by` is the definition that shadows it."""

    source: FoundDefinition
    state: State
    shadowed_by: str = ""


def _trust_none(_found: FoundDefinition) -> bool:
    return False


def _any_name(_name: str) -> bool:
    return True


class AgentTypes(Struct):
    """The agent types of a run. `allows` returns True when a definition of the repository was trusted in this form."""

    places: DefinitionSources = field(default_factory=DefinitionSources)
    team: TeamDefinition | None = None
    allows: Callable[[FoundDefinition], bool] = _trust_none

    def entries(self) -> list[AgentTypeEntry]:
        """Return every definition in order of precedence."""
        first: dict[str, str] = {}
        entries: list[AgentTypeEntry] = []
        for found, usable in self._each():
            key = found.name.lower()
            if found.definition is None:
                entries.append(AgentTypeEntry(found, "broken"))
            elif not usable:
                entries.append(AgentTypeEntry(found, "needs trust"))
            elif key in first:
                entries.append(AgentTypeEntry(found, "shadowed", first[key]))
            else:
                first[key] = found.file or found.source
                entries.append(AgentTypeEntry(found, "used"))
        return entries

    def _each(self) -> Iterator[tuple[FoundDefinition, bool]]:
        for role in role_definitions(self.team):
            yield FoundDefinition(role.name, ROLE, role.file, role), True
        yield from ((found, True) for found in self.places.given)
        for shelf in self.places.directories:
            for found in shelf.definitions():
                usable = not shelf.is_in_repository or (found.definition is not None and self.allows(found))
                yield found, usable
        yield from ((found, True) for found in _built_in())

    def active(self) -> dict[str, AgentType]:
        """Return the agent types in use, by name."""
        return {
            entry.source.definition.name: entry.source.definition
            for entry in self.entries()
            if entry.state == "used" and entry.source.definition is not None
        }

    def find(self, name: str) -> AgentType:
        """Return the agent type of that name, without regard to case.

        Raises UsageError naming the nearest, or saying why the type of that name cannot be used.
        """
        key = name.lower()
        # this runs at every start of an agent, so skipped definitions are not parsed
        for found, usable in self._each():
            if usable and found.definition is not None and found.name.lower() == key:
                return found.definition
        self._explain(name)
        return find_agent_type(name, self.active())

    def _explain(self, name: str) -> None:
        for entry in self.entries():
            if entry.source.name.lower() != name.lower():
                continue
            if entry.state == "needs trust":
                what = f"the agent type {entry.source.name} is defined by this repository, which is not trusted with it"
                do = ["teamwright trust shows and trusts it", "--trust takes it for one run"]
            else:
                what, do = f"the agent type {entry.source.name} cannot be used: {entry.source.problem}", ["correct it"]
            raise UsageError("usage", what, looked_at=[("file", entry.source.file)], do=do, note="nothing was started")

    def warnings(self) -> tuple[str, ...]:
        """Return one line when definitions are broken."""
        broken = [entry.source for entry in self.entries() if entry.state == "broken"]
        if not broken:
            return ()
        first = f"{broken[0].file}: {broken[0].problem}"
        count = "1 agent definition" if len(broken) == 1 else f"{len(broken)} agent definitions"
        return (f"{count} cannot be used: {first}; teamwright agents list shows all",)

    def tool_description(self, may: Callable[[str], bool] = _any_name) -> str:
        """Return the list of agent types that the Agent tool contains.

        Roles are left out: the lead's prompt describes them. `may`: an agent of that name may be started.
        """
        return self._type_list(may).text

    def shortened(self) -> frozenset[str]:
        """Return the names of the types whose descriptions do not fit into the Agent tool as a whole."""
        return self._type_list(_any_name).shortened

    def _type_list(self, may: Callable[[str], bool]) -> TypeList:
        kinds = [kind for kind in self.active().values() if not kind.role and may(kind.name)]
        return type_list(sorted(kinds, key=lambda kind: kind.source != BUILT_IN))


@cache
def _built_in() -> tuple[FoundDefinition, ...]:
    return tuple(FoundDefinition(kind.name, BUILT_IN, "", kind) for kind in built_in_types().values())


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


class TypeList(Struct, frozen=True):
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
    described_rows, named = rows[:described], rows[described:]
    low = SHORTEST
    while low < longest:  # the largest length with which the list fits
        middle = (low + longest + 1) // 2
        low, longest = (
            (middle, longest) if _size(_text(described_rows, middle, named)) <= LIST_BYTES else (low, middle - 1)
        )
    shortened = {row.name for row in described_rows if len(row.about) > low}
    return TypeList(_text(described_rows, low, named), frozenset(shortened.union(row.name for row in named)))


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
    beginning = text[: ends[-1]] if ends else text[:longest].rpartition(" ")[0] or text[:longest]
    return f"{beginning} …"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
