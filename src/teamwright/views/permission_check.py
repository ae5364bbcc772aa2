"""The permission rules of a directory, and the verdict on a call such as `Bash(git push)`.

A call is judged under the settings here or as a member of a team on disk. The same code decides as in a run; nothing is
asked or changed. Depends on settings, trust, teams on disk and policies.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.plan_mode import MODE_MEANINGS
from teamwright.config.agent_types import definition_sources
from teamwright.config.files_executed_by_settings import find_further_programs
from teamwright.config.plugins import installed_plugins
from teamwright.config.settings.merge import MODE, lead_mode, load_settings, make_policy, reads_other_product
from teamwright.config.settings.settings import SettingFlags, Settings
from teamwright.config.team_file import TeamDefinition, ownership_of, ownership_of_tasks
from teamwright.config.trust import TrustStore
from teamwright.git.repository import work_tree
from teamwright.permissions.decision_context import PathOwnership
from teamwright.permissions.grant_offers import suggest_updates
from teamwright.permissions.permission_decision import COORDINATION_TOOLS, Policy
from teamwright.permissions.permission_update_json import to_wire
from teamwright.permissions.rules import PATH_TOOLS, READ_TOOLS, url_host
from teamwright.permissions.verdict import HARMLESS, Access, Decision, Mode, PermissionUpdate, Verdict, parse_mode
from teamwright.permissions.worktree_bounds import WorktreeBounds
from teamwright.processes.program_environment import absolute_entries
from teamwright.protocol.errors import TeamwrightError, UsageError
from teamwright.protocol.ids import LEAD, LEAD_ALIAS, SessionId, nearest, session_list_name
from teamwright.protocol.members import RosterMember, TeamConfig
from teamwright.protocol.task import TaskStatus
from teamwright.saved.saved_members import find_saved_member
from teamwright.saved.teams import find_tasks
from teamwright.session.modes_and_grants import load_mode, restore_mode
from teamwright.session.preparation import load_team_definition
from teamwright.storage.paths import Home
from teamwright.tasks.task_rules import is_owner
from teamwright.worktrees.worktree_record import find_member_record

_FORM = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*)(?:\((.*)\))?", re.DOTALL)
_ALIASES = {"Task": "Agent"}
_TOOLS = (*sorted(PATH_TOOLS), "Bash", "WebFetch", "Agent", "Skill", *sorted(COORDINATION_TOOLS))
_LONGEST = 100_000


class CallerDescription(Struct, frozen=True):
    """The caller: in this directory, in the mode `mode`, or as that member of a team (`NAME[@TEAM]`)."""

    home: Home
    cwd: Path
    mode: str | None = None
    member: str | None = None
    settings_file: Path | str | None = None


class PartVerdict(Struct, frozen=True):
    """A verdict and its source: `what` is a command of the line, or an agent of the chain, in its `mode`."""

    what: str
    verdict: str
    rule: str
    reason: str
    mode: str = ""


class CallVerdict(Struct, frozen=True):
    """The verdict on a call. `mode_from` is the source of the mode; `always` is what "always" would store.

    `grants` are the updates that a person may grant with an approval, `suggestions` the same in wire format; `parts`
    are the commands of a line; `chain` is the agent, followed by the agents above it.
    """

    call: str
    tool: str
    cwd: str
    who: str
    verdict: str
    rule: str
    reason: str
    mode: str
    mode_from: str
    always: str
    grants: tuple[str, ...]
    suggestions: tuple[dict[str, Any], ...]
    parts: tuple[PartVerdict, ...]
    chain: tuple[PartVerdict, ...]


class _Link(Struct, frozen=True):
    """One agent of a chain, with the source of its mode."""

    who: str
    policy: Policy
    mode_from: str

    @property
    def mode(self) -> str:
        """The mode as shown to people."""
        return str(self.policy.display_mode)


def check_call(call: str, subject: CallerDescription) -> CallVerdict:
    """Return the verdict on the call, and everything that led to it.

    Raises UsageError for an invalid call or mode, UnknownMember and `unknown-team` for an unknown caller, CannotStart
    for settings that cannot be read.
    """
    chain, cwd = _chain(subject)
    tool, access = parse_call(call, cwd, absolute_entries(os.environ.get("PATH", "")))
    agent = chain[0]
    decision = agent.policy.decide(tool, access)
    always = decision.find_always()
    offered = suggest_updates(tool, access, decision, agent.policy, always)
    return CallVerdict(
        call=call,
        tool=tool,
        cwd=str(cwd),
        who=agent.who,
        verdict=str(decision.verdict),
        rule=decision.rule,
        reason=decision.reason,
        mode=agent.mode,
        mode_from=agent.mode_from,
        always=always,
        grants=tuple(map(_in_words, offered)),
        suggestions=tuple(map(to_wire, offered)),
        parts=tuple(_judged(what, one) for what, one in _parts(chain, access)),
        chain=(
            _judged(agent.who, decision, agent.mode),
            *(_judged(link.who, _for_those_below(link.policy, tool, access), link.mode) for link in chain[1:]),
        ),
    )


def _in_words(update: PermissionUpdate) -> str:
    if update.kind == "setMode":
        return f"the mode {update.mode}"
    what, values = ("directory", update.directories) if update.directories else ("rule", update.rules)
    return f"the {what} {', '.join(values)}"


def _for_those_below(policy: Policy, tool: str, access: Access) -> Decision:
    """Return a policy's verdict for agents below it, to which a coordinating lead's own restriction does not apply."""
    return Policy(Mode.BUBBLE).narrow_to(policy).decide(tool, access)


def _judged(what: str, decision: Decision, mode: str = "") -> PartVerdict:
    return PartVerdict(what, str(decision.verdict), decision.rule, decision.reason, mode)


def _parts(chain: list[_Link], access: Access) -> list[tuple[str, Decision]]:
    """Return the commands of a line, each with the strictest verdict of the chain."""
    if access.command is None:
        return []
    found = chain[0].policy.explain_command(access)
    for link in chain[1:]:
        above = link.policy.explain_command(access)
        if len(above) == len(found):
            found = [one if _as_strict(one[1], other[1]) else other for one, other in zip(found, above, strict=True)]
    return found


def _as_strict(one: Decision, other: Decision) -> bool:
    order = list(Verdict)
    return order.index(one.verdict) >= order.index(other.verdict)


# ── the call ──────────────────────────────────────────────────────────────────────────────────────────────────────


def parse_call(text: str, cwd: Path, search_path: str = "") -> tuple[str, Access]:
    """Parse `Tool(content)` into a tool and the access of its call. Raises UsageError for an invalid call.

    `search_path` is the PATH of commands; empty: no program of the project is looked for.
    """
    form = _FORM.fullmatch(text.strip())
    if form is None or len(text) > _LONGEST or "\0" in text:
        raise _no_call(text, "it has the form Tool or Tool(content)")
    name = form[1]
    content = form[2]
    tool = _ALIASES.get(name, name)
    if tool == "Agent":
        return tool, Access(subject=content or "general-purpose", harmless=True)
    if tool == "Skill":
        name = _required(text, tool, content, "Skill(release-notes)").removeprefix("/")
        return tool, Access(subject=name, harmless=True)
    if tool in COORDINATION_TOOLS:
        return tool, HARMLESS
    if tool == "Bash":
        command = _required(text, tool, content, "Bash(git status)")
        return tool, Access(command=command, cwd=cwd, search_path=search_path)
    if tool == "WebFetch":
        url = _required(text, tool, content, "WebFetch(https://example.org)")
        if not url.startswith(("http://", "https://")) or not url_host(url):
            raise _no_call(text, "WebFetch says the whole address: WebFetch(https://example.org)")
        return tool, Access(url=url)
    if tool in PATH_TOOLS:
        return tool, _of_path(text, tool, content, cwd)
    if name.startswith(("mcp__", "python__")):
        return tool, Access(subject=content)
    near = nearest(name, list(_TOOLS))
    raise _no_call(text, f"there is no tool {name[:60]}" + (f": did you mean {near}?" if near else ""))


def _of_path(text: str, tool: str, content: str | None, cwd: Path) -> Access:
    if content is None and tool in {"Grep", "Glob"}:
        content = "."
    written = _required(text, tool, content, f"{tool}(src/x.py)")
    path = Path(os.path.join(cwd, os.path.expanduser("/" + written.lstrip("/") if written[0] == "/" else written)))
    return Access(reads=(path,)) if tool in READ_TOOLS else Access(writes=(path,))


def _required(text: str, tool: str, content: str | None, example: str) -> str:
    if content is None or not content.strip():
        raise _no_call(text, f"a call of {tool} says of what: {example}")
    return content.strip() if tool != "Bash" else content


def _no_call(text: str, why: str) -> UsageError:
    return UsageError(
        "usage",
        f"{text[:120]!r} is not a call: {why}",
        do=["write it like Bash(git push), Edit(src/x.py), Agent(Explore)"],
        note="nothing was run",
    )


# ── whose it would be ─────────────────────────────────────────────────────────────────────────────────────────────


def _chain(subject: CallerDescription) -> tuple[list[_Link], Path]:
    """Return the caller and the agents above it, and the caller's directory."""
    if subject.member is None:
        lead, _, definition = _lead(subject, subject.cwd, "")
        return [_with_ownership(lead, definition)], Path(os.path.realpath(subject.cwd))
    config, member = find_saved_member(subject.home, subject.member.removeprefix("@"))
    lead_entry = next((one for one in config.members if one.name == LEAD), None)
    here = Path(lead_entry.cwd) if lead_entry is not None and lead_entry.cwd else subject.cwd
    lead, settings, definition = _lead(subject, here, config.lead_session_id)
    tasks = _writes_of_tasks(subject.home, config.name, member.name)
    if member.name == LEAD:
        return [_with_ownership(lead, definition, tasks)], here
    mode = subject.mode or member.mode
    own = Mode.BUBBLE if not mode else parse_mode(mode, "--mode" if subject.mode else f"the roster of {config.name}")
    scope = lead.policy.scope
    policy = Policy(own, () if own is Mode.BUBBLE else settings.rules, scope).narrow_to(lead.policy)
    for fence in _fences(definition, member.agent_type, tasks, scope.base):
        policy = policy.narrow_to(Policy(Mode.BYPASS, (), replace(scope, ownership=fence)))
    if (bounds := _worktree_of(subject.home, config, member, here)) is not None:
        policy = policy.in_worktree(bounds)
    mode_from = "as its lead" if own is Mode.BUBBLE else "--mode" if subject.mode else f"its own, in {config.name}"
    return [_Link(member.name, policy, mode_from), lead], Path(member.cwd) if member.cwd else here


def _writes_of_tasks(home: Home, team: str, member: str) -> dict[str, tuple[str, ...]]:
    """Return the paths that the member's tasks in progress declare, by the tasks' numbers."""
    with suppress(TeamwrightError):  # a roster without tasks
        tasks = [task for task in find_tasks(home, team) if task.status == TaskStatus.IN_PROGRESS and task.writes]
        return {task.id: task.writes for task in tasks if is_owner(task.owner, member)}
    return {}


def _fences(
    definition: TeamDefinition | None, kind: str, tasks: Mapping[str, Sequence[str]], base: Path
) -> list[PathOwnership]:
    found = (ownership_of(definition, kind, base), ownership_of_tasks(definition, tasks, base))
    return [fence for fence in found if fence is not None]


def _worktree_of(home: Home, config: TeamConfig, member: RosterMember, here: Path) -> WorktreeBounds | None:
    """Return the bounds of a member with a worktree. Raises StorageError for a damaged record."""
    if not member.worktree_path:
        return None
    tree = Path(member.worktree_path)
    names = {config.name, session_list_name(SessionId(config.lead_session_id))}
    record = find_member_record(home.worktrees, tree, names, member.name)
    if record is None:
        return None
    return WorktreeBounds(Path(os.path.realpath(tree)), work_tree(here) or Path(record.repository), record.branch)


def _with_ownership(
    lead: _Link, definition: TeamDefinition | None, tasks: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> _Link:
    """Return the lead with its own path ownership, which does not apply to agents below it."""
    fences = _fences(definition, "", tasks, lead.policy.scope.base)
    if not fences:
        return lead
    policy = Policy(Mode.BUBBLE).narrow_to(lead.policy)
    for fence in fences:
        policy = policy.narrow_to(Policy(Mode.BYPASS, (), replace(lead.policy.scope, ownership=fence)))
    policy.change_delegation(lead.policy.is_delegating)
    return replace(lead, policy=policy)


def _lead(subject: CallerDescription, cwd: Path, session: str) -> tuple[_Link, Settings, TeamDefinition | None]:
    flags = SettingFlags(settings_file=subject.settings_file)
    trust = TrustStore.load(subject.home).verdict(cwd, compat=reads_other_product(subject.home, flags))
    settings = load_settings(subject.home, cwd, flags, trust)
    definition, _ = load_team_definition(trust)
    own = (subject.home.session(cwd, SessionId(session)),) if session else ()
    sources = definition_sources(
        subject.home, trust.root, compat=settings.compat, plugins=installed_plugins(subject.home)[0]
    )
    further = find_further_programs(sources, subject.home, trust.root)
    policy = make_policy(settings, subject.home, cwd, trust, own, further=further)
    mode_from = settings.origins.get("permissions.defaultMode", "the default")
    saved_mode = load_mode(own[0]) if own else None
    if saved_mode is not None:
        restore_mode(policy, saved_mode)
        mode_from = "kept by its session"
    if subject.mode is not None and subject.member is None:
        mode = lead_mode(subject.mode, "--mode")
        policy.change_delegation(mode is Mode.DELEGATE)
        if mode is not Mode.DELEGATE:
            policy.change_mode(mode)
        mode_from = "--mode"
    return _Link(LEAD_ALIAS, policy, mode_from), settings, definition


DEFAULT = "the default"
_WIDENING = ("permissions.allow", "permissions.additionalDirectories", MODE)


class RuleView(Struct, frozen=True):
    """One rule as it is written, and its file or flag."""

    verdict: str
    rule: str
    source: str


class RulesView(Struct, frozen=True):
    """The rules in force, in the order of precedence.

    `untrusted` are entries of the repository that have no effect before a person trusts them; `warnings` name settings
    that were left out.
    """

    mode: str
    meaning: str
    mode_from: str
    directories: tuple[str, ...]
    rules: tuple[RuleView, ...]
    untrusted: tuple[RuleView, ...]
    warnings: tuple[str, ...]
    settings: str
    """The user's own settings file, where a rule can be added."""


def rules_view(home: Home, cwd: Path, settings_file: Path | str | None = None) -> RulesView:
    """Return the rules of a run in this directory. Raises CannotStart for settings that cannot be read."""
    flags = SettingFlags(settings_file=settings_file)
    trust = TrustStore.load(home).verdict(Path(os.path.realpath(cwd)), compat=reads_other_product(home, flags))
    settings = load_settings(home, cwd, flags, trust)
    mode = Mode.DELEGATE if settings.delegates else settings.mode
    order = ("deny", "ask", "allow")
    rules = sorted(settings.rules, key=lambda rule: order.index(str(rule.verdict)))
    return RulesView(
        mode=str(mode),
        meaning=MODE_MEANINGS[mode],
        mode_from=settings.origins.get(MODE, DEFAULT),
        directories=tuple(dict.fromkeys(map(str, (os.path.realpath(cwd), *settings.directories)))),
        rules=tuple(RuleView(str(rule.verdict), rule.text, rule.source) for rule in rules),
        untrusted=tuple(
            RuleView(entry.kind.removeprefix("permissions."), entry.name or entry.summary, entry.file)
            for entry in trust.pending
            if entry.kind in _WIDENING
        ),
        warnings=settings.warnings,
        settings=str(home.settings),
    )
