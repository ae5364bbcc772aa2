"""What a kind of agent makes of a spawn: the one place where model, mode, caps and words are settled, for every route.

A field whose machinery is not there is refused where leaving it out would do harm, and told of otherwise. Makes no
agent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace

from teamwright.agent.agent_type import BUILT_IN, FORK_TYPE, AgentBounds, AgentType
from teamwright.config.agent_types.definition_fields import INHERIT
from teamwright.config.agent_types.registry import AgentTypes
from teamwright.config.external_commands import OWN, ExternalCommandSettings
from teamwright.config.team_file.team_roles import with_role
from teamwright.hooks.hook_index import HookSpec
from teamwright.models.effort import Effort, describe_efforts, supported_effort, supports
from teamwright.models.model import ModelCard
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.values import dataclass
from teamwright.teams.spawn_spec import SpawnSpec


def _ignore(_text: str) -> None:
    """Nobody is told."""


@dataclass(slots=True)
class SpecResolver:
    """Settles what a spec means, for every route. What has no effect yet is told once a kind."""

    agent_types: AgentTypes = field(default_factory=AgentTypes)
    commands: ExternalCommandSettings = field(default_factory=ExternalCommandSettings)
    tell: Callable[[str], None] = _ignore
    told: set[str] = field(default_factory=set[str])

    def resolve(self, spec: SpawnSpec) -> SpawnSpec:
        """The spec with what its role and its kind say; a resolved one as it is. One of an agent that goes on has
        all of that already: only its kind is looked up.

        Raises UsageError for a kind that nobody knows, or that cannot be honoured.
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
        """How hard an agent thinks: as its call says, else its kind, else the team file, else as its caller (`above`).

        What its model does not document is left out, and told once; in a call it is an error. Raises UsageError.
        """
        if spec.effort is not None:
            return required_effort(card, spec.effort)
        team = self.agent_types.team.effort if self.agent_types.team is not None else None
        asked = ((f"the agent type {kind.name}", kind.effort), ("the team file", team), ("its caller", above))
        who, said = next((row for row in asked if row[1] is not None), ("", None))
        if said is not None and not supports(card, said):
            self.notify_once(f"the effort {said} of {who} is not used by {kind.name}: {missing_effort(card)}")
        return supported_effort(card, said)

    def warnings(self) -> tuple[str, ...]:
        """Lines for the start of a run: definitions that are broken, and what was told already, when nobody heard."""
        return (*self.agent_types.warnings(), *sorted(self.told))

    def notify_once(self, text: str) -> None:
        """Tell people of something that has no effect, the first time."""
        if text not in self.told:
            self.told.add(text)
            self.tell(text)

    def definition(self, spec: SpawnSpec) -> AgentType:
        """The kind of a spec that is resolved, or of an agent that goes on, which is never less bound than before.

        Raises UsageError for a kind that nobody knows, and for an agent that would be free of what guarded it.
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
        """The hooks of the kind of that name; none where there is no such kind."""
        try:
            return self.agent_types.find(agent_type).hooks
        except UsageError:
            return ()


def with_definition(spec: SpawnSpec, kind: AgentType) -> SpawnSpec:
    """The spec with what its kind says. The model: the call's, else the kind's, else None, which is the caller's.

    Raises UsageError for a kind that cannot be honoured.
    """
    require_possible(kind)
    asked = spec.model if spec.model is not None else kind.model
    planned = kind.mode == "plan" and spec.mode is None
    prompt = f"{kind.initial_prompt}\n\n{spec.prompt}" if kind.initial_prompt else spec.prompt
    return replace(
        spec,
        prompt=prompt,
        agent_type=kind.name,
        model=None if asked is None or asked.lower() == INHERIT else asked,
        mode=spec.mode or kind.mode,
        plan_mode_required=spec.plan_mode_required or planned,
        max_turns=min((cap for cap in (spec.max_turns, kind.max_turns) if cap is not None), default=None),
        definition=kind,
        bounds=kind.bounds,
    )


def with_command(spec: SpawnSpec, usual: str) -> SpawnSpec:
    """The spec with the command that runs it, if it is a teammate: its own, its role's, else the usual one.

    Another program is told in its first prompt what its kind is told; of ours it reads nothing else. Raises UsageError
    for a sub-agent of a kind that another program runs.
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
    """Raises UsageError for a field that cannot be honoured yet and must not be left out."""
    if kind.isolation is not None:
        what = f"the agent type {kind.name} works in isolation ({kind.isolation}), which is not there yet"
        raise _refused(kind, what, "it would change your files; without `isolation` it starts")


def required_effort(card: ModelCard, effort: Effort) -> Effort:
    """The effort that was asked for by name. Raises UsageError when the model does not document it."""
    if supports(card, effort):
        return effort
    looked_at = [("model", card.name), ("its efforts", describe_efforts(card))]
    do = ["leave effort out: the model then uses its default"]
    what = f"the effort {effort} cannot be asked of {card.name}"
    raise UsageError("usage", what, looked_at=looked_at, do=do, note="nothing was started")


def missing_effort(card: ModelCard) -> str:
    """What a model does that does not document an effort, and which ones it does."""
    known = describe_efforts(card)
    return f"{card.name} uses its default effort" + (f" (it takes {known})" if known != "none" else ", it takes none")


def restrict_to_original(spec: SpawnSpec, kind: AgentType | None) -> AgentType:
    """The kind that an agent goes on with: never less bound than it was when it was born.

    `kind` is the kind of its name as it is now, None when there is none any more. Raises UsageError when something
    that guarded it is gone: it would be free of it.
    """
    bounds = spec.bounds or AgentBounds()
    if kind is None and bounds.role:
        raise _missing_type(
            spec, "the role of that name, and what it may not change with it, is not in the team file any more"
        )
    known = kind or AgentType(spec.agent_type, "", source="gone")
    if known.lacks_hooks_of(bounds):
        raise _missing_type(spec, "hooks that guarded it are not there any more, or not trusted")
    return known.restricted_to(bounds)


def name_requester(problem: TeamwrightError, spec: SpawnSpec) -> TeamwrightError:
    """The error of a model that cannot be had, with whose model it is."""
    kind = spec.definition
    if kind is None or kind.model is None or kind.model != spec.model:
        return problem
    where = ("asked by", f"the agent type {kind.name}" + (f", {kind.file}" if kind.file else ""))
    do = [*problem.do, f"pass model {INHERIT!r}: it has its caller's then"]
    return type(problem)(problem.slug, problem.what, looked_at=[*problem.looked_at, where], do=do, note=problem.note)


def _refused(kind: AgentType, what: str, do: str) -> UsageError:
    looked_at = [("file", kind.file or kind.source)]
    return UsageError("usage", what, looked_at=looked_at, do=[do], note="nothing was started")


def _missing_type(spec: SpawnSpec, why: str) -> UsageError:
    what = f"it was born as {spec.agent_type}, and {why}"
    return UsageError("usage", what, do=["bring that back, or start a new member"], note="it was not started")
