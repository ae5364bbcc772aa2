"""The agent types of a session: their sources and trust.

A person may trust a definition while the session runs. An agent that changes a definition gains nothing by it.
"""

from __future__ import annotations

from msgspec import Struct

from teamwright.config.agent_types.definition_sources import FoundDefinition
from teamwright.config.agent_types.registry import AgentTypes
from teamwright.config.trust_store import TrustState, TrustStore
from teamwright.config.trust_survey import agent_entry
from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD
from teamwright.session.context import SessionContext
from teamwright.session.factory.spec_resolver import SpecResolver
from teamwright.storage.paths import Home


class TrustedDefinitions(Struct):
    """The definitions of a repository that a person trusted, before or during the session.

    A definition that was trusted for one run is trusted with its content at the start.
    """

    home: Home
    state: TrustState
    compat: bool = True
    _later: TrustState | None = None
    _seen: int = 0

    def __post_init__(self) -> None:
        self._seen = self._written()

    def __call__(self, found: FoundDefinition) -> bool:
        """Return True when this definition is trusted with its present content."""
        entry = agent_entry(self.state.root, found)
        if self.state.allows(entry):
            return True
        if (written := self._written()) != self._seen:
            self._seen = written
            self._later = TrustStore.load(self.home).verdict(self.state.root, compat=self.compat)
        return self._later is not None and self._later.allows(entry)

    def _written(self) -> int:
        try:
            return self.home.trust.stat().st_mtime_ns
        except OSError:
            return 0


def make_resolver(context: SessionContext, emit: Emit) -> SpecResolver:
    """Create the resolver of specs for this session."""
    trusted = TrustedDefinitions(context.home, context.trust, context.settings.compat)
    kinds = AgentTypes(context.places, context.definition, trusted)

    def tell(text: str) -> None:
        emit(Notice(member=LEAD, text=text, level="warning"))

    return SpecResolver(kinds, context.settings.commands, tell)
