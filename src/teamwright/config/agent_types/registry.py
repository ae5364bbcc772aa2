"""All agent types of a run, in order of precedence: roles, given ones, repository, user, plugins, built-in ones.

The first of several with one name is used; the others are shadowed. Each query checks the files and reads changed ones
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field
from functools import cache
from typing import Literal, TypeAlias

from teamwright.agent.agent_type import BUILT_IN, AgentType, built_in_types, find_agent_type
from teamwright.config.agent_types.definition_files import FoundDefinition
from teamwright.config.agent_types.definition_sources import DefinitionSources
from teamwright.config.agent_types.type_list import TypeList, type_list
from teamwright.config.team_file.team_definition import TeamDefinition
from teamwright.config.team_file.team_roles import role_definitions
from teamwright.protocol.errors import UsageError
from teamwright.protocol.values import dataclass

State: TypeAlias = Literal["used", "shadowed", "needs trust", "broken"]

ROLE = "team file"


@dataclass(frozen=True, slots=True)
class AgentTypeEntry:
    """One definition and its state. `by` is the definition that shadows it."""

    source: FoundDefinition
    state: State
    shadowed_by: str = ""


def _trust_none(_found: FoundDefinition) -> bool:
    return False


def _any_name(_name: str) -> bool:
    return True


@dataclass(slots=True)
class AgentTypes:
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
        wanted = name.lower()
        # this runs at every start of an agent, so skipped definitions are not parsed
        for found, usable in self._each():
            if usable and found.definition is not None and found.name.lower() == wanted:
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
