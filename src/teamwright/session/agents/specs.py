"""The agent types of a session, and the resolution of spawn specs: model, mode, caps and prompt of an agent type.

An unsupported field is refused where ignoring it would do harm, and reported otherwise. A person may trust a definition
while the session runs. An agent that changes a definition gains nothing by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.agent.agent_type import BUILT_IN, FORK_TYPE, AgentBounds, AgentType
from teamwright.config.agent_type_fields import INHERIT
from teamwright.config.agent_types import AgentTypes, FoundDefinition
from teamwright.config.external_member_commands import OWN
from teamwright.config.settings.settings import ExternalCommandSettings
from teamwright.config.team_file import with_role
from teamwright.config.trust import TrustState, TrustStore
from teamwright.config.trust_entries import agent_entry
from teamwright.hooks.hook_definitions import HookSpec
from teamwright.models.effort import Effort, describe_efforts, supported_effort, supports
from teamwright.models.model import ModelCard
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.events import Emit, Notice
from teamwright.protocol.ids import LEAD
from teamwright.session.preparation import SessionContext
from teamwright.storage.paths import Home
from teamwright.team_records.spawn_spec import REMOTE, WORKTREE

if TYPE_CHECKING:
    from teamwright.team_records.spawn_spec import SpawnSpec


def _ignore(_text: str) -> None:
    """Ignore a notice."""


class SpecResolver(Struct):
    """The resolver of specs. A field without effect is reported once for each agent type."""

    agent_types: AgentTypes = field(default_factory=AgentTypes)
    commands: ExternalCommandSettings = field(default_factory=ExternalCommandSettings)
    tell: Callable[[str], None] = _ignore
    reports: set[str] = field(default_factory=set[str])

    def resolve(self, spec: SpawnSpec) -> SpawnSpec:
        """Return the spec completed by role and agent type; a resolved spec unchanged. For a resumed agent only the
        agent type is looked up.

        Raises UsageError for an agent type that is unknown or cannot be honoured.
        """
        if spec.definition is not None:
            return spec
        if spec.fork:
            return replace(spec, definition=FORK_TYPE, agent_type=FORK_TYPE.name)
        if spec.bounds is not None:
            return replace(spec, definition=self.definition(spec))
        spec = with_role(spec, self.agent_types.team)
        kind = self.agent_types.find(spec.agent_type)
        return with_command(with_definition(spec, kind), self.commands.usual)

    def resolve_effort(self, spec: SpawnSpec, kind: AgentType, card: ModelCard, above: Effort | None) -> Effort | None:
        """Return an agent's effort: of its call, else its type, else the team file, else its caller (`above`).

        An effort that the model does not document is left out and reported once; in a call it is an error. Raises
        UsageError.
        """
        if spec.effort is not None:
            return required_effort(card, spec.effort)
        team = self.agent_types.team.effort if self.agent_types.team is not None else None
        candidates = ((f"the agent type {kind.name}", kind.effort), ("the team file", team), ("its caller", above))
        who, effort = next((row for row in candidates if row[1] is not None), ("", None))
        if effort is not None and not supports(card, effort):
            self.notify_once(f"the effort {effort} of {who} is not used by {kind.name}: {missing_effort(card)}")
        return supported_effort(card, effort)

    def warnings(self) -> tuple[str, ...]:
        """Return lines for the start of a run: broken definitions, and earlier reports without a reader."""
        return (*self.agent_types.warnings(), *sorted(self.reports))

    def notify_once(self, text: str) -> None:
        """Report a field without effect, the first time."""
        if text not in self.reports:
            self.reports.add(text)
            self.tell(text)

    def definition(self, spec: SpawnSpec) -> AgentType:
        """Return the agent type of a resolved spec, or of a resumed agent, which never loses a restriction.

        Raises UsageError for an unknown agent type, and when a resumed agent would lose what guarded it.
        """
        if spec.definition is not None:
            return spec.definition
        try:
            found = self.agent_types.find(spec.agent_type)
        except UsageError:
            if spec.bounds is None:
                raise
            found = None
        return restrict_to_original(spec, found)

    def hooks_of(self, agent_type: str) -> tuple[HookSpec, ...]:
        """Return the hooks of that agent type; none for an unknown one."""
        try:
            return self.agent_types.find(agent_type).hooks
        except UsageError:
            return ()


def with_definition(spec: SpawnSpec, kind: AgentType) -> SpawnSpec:
    """Return the spec completed by its agent type. The model is the call's, else the type's, else None, the caller's.

    Raises UsageError for an agent type that cannot be honoured.
    """
    require_possible(kind)
    kind = kind if spec.tools is None else kind.restricted_to(AgentBounds(tools=spec.tools))
    requested_model = spec.model if spec.model is not None else kind.model
    planned = kind.mode == "plan" and spec.mode is None
    prompt = f"{kind.initial_prompt}\n\n{spec.prompt}" if kind.initial_prompt else spec.prompt
    return replace(
        spec,
        prompt=prompt,
        agent_type=kind.name,
        model=None if requested_model is None or requested_model.lower() == INHERIT else requested_model,
        mode=spec.mode or kind.mode,
        plan_mode_required=spec.plan_mode_required or planned,
        isolation=spec.isolation or kind.isolation,
        max_turns=min((cap for cap in (spec.max_turns, kind.max_turns) if cap is not None), default=None),
        definition=kind,
        bounds=kind.bounds,
    )


def with_command(spec: SpawnSpec, usual: str) -> SpawnSpec:
    """Return a teammate's spec with its command: its own, its role's, else the default.

    The first prompt of an external member contains the prompt of its agent type, because the program reads no other
    file of Teamwright. Raises UsageError for a sub-agent of an external agent type.
    """
    kind = spec.definition
    if not spec.name:
        if spec.command:
            raise UsageError(
                "usage",
                f"agents of the type {spec.agent_type} are run by the command {spec.command}, as teammates only",
                do=["give it a name"],
                note="nothing was started",
            )
        return spec
    command = spec.command or usual
    if command in {"", OWN}:
        return replace(spec, command="")
    words = kind.prompt if kind is not None and kind.source != BUILT_IN else ""
    return replace(spec, command=command, prompt=f"{words}\n\n{spec.prompt}" if words else spec.prompt)


def require_possible(kind: AgentType) -> None:
    """Raise UsageError for a field that is not supported yet and must not be ignored."""
    if kind.isolation not in {None, WORKTREE, REMOTE}:
        what = f"the agent type {kind.name} works in isolation ({kind.isolation}), which is not there yet"
        raise UsageError(
            "usage",
            what,
            looked_at=[("file", kind.file or kind.source)],
            do=["it would change your files; without `isolation` it starts"],
            note="nothing was started",
        )


def required_effort(card: ModelCard, effort: Effort) -> Effort:
    """Return the effort that was named. Raises UsageError when the model does not document it."""
    if supports(card, effort):
        return effort
    looked_at = [("model", card.name), ("its efforts", describe_efforts(card))]
    do = ["leave effort out: the model then uses its default"]
    what = f"the effort {effort} cannot be asked of {card.name}"
    raise UsageError("usage", what, looked_at=looked_at, do=do, note="nothing was started")


def missing_effort(card: ModelCard) -> str:
    """Return the text for an undocumented effort: what the model does, and its documented efforts."""
    known = describe_efforts(card)
    return f"{card.name} uses its default effort" + (f" (it takes {known})" if known != "none" else ", it takes none")


def restrict_to_original(spec: SpawnSpec, kind: AgentType | None) -> AgentType:
    """Return the agent type of a resumed agent, with at least the restrictions of its start.

    `kind` is the present agent type of its name, None when it was removed. Raises UsageError when something that
    guarded the agent is gone.
    """
    bounds = spec.bounds or AgentBounds()
    if kind is None and bounds.role:
        raise _missing_type(
            spec, "the role of that name, and what it may not change with it, is not in the team file any more"
        )
    known = kind or AgentType(spec.agent_type, "", source="gone")
    if known.lacks_hooks_of(bounds):
        raise _missing_type(spec, "hooks that guarded it were removed, or are not trusted")
    return known.restricted_to(bounds)


def name_requester(problem: TeamwrightError, spec: SpawnSpec) -> TeamwrightError:
    """Return the error of an unavailable model, with the agent whose model it is."""
    kind = spec.definition
    if kind is None or kind.model is None or kind.model != spec.model:
        return problem
    where = ("asked by", f"the agent type {kind.name}" + (f", {kind.file}" if kind.file else ""))
    do = [*problem.do, f"pass model {INHERIT!r}: it has its caller's then"]
    return type(problem)(problem.slug, problem.what, looked_at=[*problem.looked_at, where], do=do, note=problem.note)


def _missing_type(spec: SpawnSpec, why: str) -> UsageError:
    what = f"it was started as {spec.agent_type}, and {why}"
    return UsageError("usage", what, do=["restore that, or start a new member"], note="it was not started")


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
            store = TrustStore.load(self.home)
            self._later = store.verdict(self.state.root, compat=self.compat, project=self.state.project)
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
