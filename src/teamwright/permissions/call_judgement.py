"""The verdict on one call in one context: rules about the tool and its target, then the mode.

Policies, and those above them, are in `permission_decision`.
"""

from __future__ import annotations

from msgspec.structs import replace

from teamwright.permissions.decision_context import (
    DecisionContext,
    decide_by_mode,
    decide_by_plan,
    decide_by_rule,
    strictest,
)
from teamwright.permissions.host_pattern import is_local_host, url_host
from teamwright.permissions.path_verdicts import judge_path
from teamwright.permissions.rules import READ_TOOLS, Rule
from teamwright.permissions.verdict import Access, Decision, Mode, Verdict, where_allowed
from teamwright.shell_lines.work_bound import find_bounded

NOTHING_TO_DECIDE = Decision(Verdict.ALLOW, "nothing", "There is nothing to decide.")

_READ_TOOLS = READ_TOOLS | {"WebFetch", "WebSearch"}
"""Tools that change nothing with any input."""


def judge_call(context: DecisionContext, tool: str, access: Access) -> Decision:
    """Return the verdict on a call in one context, without those above."""
    if access.command is not None:
        # The grammar of the shell is slow to load, so only a decision on a command pays for it.
        from teamwright.permissions.shell_line_verdict import judge_with_aliases

        return strictest(
            [judge_with_aliases(context, access), _decide_by_name(context, tool, access)], NOTHING_TO_DECIDE
        )
    deep = tool == "Grep"  # which asks for what it leaves out, as Glob does: `left_out`
    paths = [judge_path(context, tool, path, writes=True) for path in access.writes]
    paths += [judge_path(context, tool, path, writes=False, deep=deep, except_denied=True) for path in access.reads]
    return strictest(paths, NOTHING_TO_DECIDE) if paths else _decide_by_name(context, tool, access)


def _decide_by_name(context: DecisionContext, tool: str, access: Access) -> Decision:
    """Rules about the tool, its subject or its address, then the mode."""
    rules = context.rules.rules_for(tool)
    planning = context.is_planning and access.command is None and not access.harmless and tool not in _READ_TOOLS
    for group in (rules.deny, () if context.bypasses or planning else rules.ask, () if planning else rules.allow):
        for rule in group:
            if _names_call(rule, access) and not (group is rules.allow and _is_too_wide(rule, access)):
                return decide_by_rule(rule)
    if access.command is not None:
        return decide_by_mode(context.mode, Verdict.ALLOW, "The command decides.")
    if access.harmless:
        return decide_by_mode(context.mode, Verdict.ALLOW, "It touches nothing but the team's own files.")
    if access.is_named:
        return decide_by_mode(context.mode, Verdict.ALLOW, "An allowed command names this host.")
    if planning:
        return decide_by_plan(context)
    if context.bypasses:
        return decide_by_mode(context.mode, Verdict.ALLOW, "The mode allows everything that no deny rule names.")
    return decide_by_mode(
        context.mode, Verdict.ASK, f"Nothing allows {tool}{f' for {access.url}' if access.url else ''}."
    )


def complete_decision(context: DecisionContext, tool: str, access: Access, decision: Decision) -> Decision:
    """Return the decision with the rule that "always" stores. Where no person can answer, a question is a denial."""
    if decision.verdict is not Verdict.ASK:
        return decision
    if context.mode is Mode.DONT_ASK:
        return deny_question(context, decision)
    return replace(decision, always=_rule_to_offer(context, tool, access, decision))


def deny_question(context: DecisionContext, decision: Decision) -> Decision:
    """Return the denial of a call that would ask, in the mode without questions."""
    allowed = "" if decision.needs_person else where_allowed(context.scope.settings)
    reason = f"{decision.reason} In this mode no call is asked about{allowed}."
    return replace(decision, verdict=Verdict.DENY, reason=reason)


def _rule_to_offer(context: DecisionContext, tool: str, access: Access, decision: Decision) -> str:
    plain = decision.rule.startswith("mode ") or decision.rule == "git policy"
    if not plain:
        return ""
    from teamwright.permissions.always_rule import suggest_rule

    return find_bounded(lambda: suggest_rule(tool, access, context), otherwise="")


def _is_too_wide(rule: Rule, access: Access) -> bool:
    """Return True for an allow rule that does not name the host of a page of this machine or its network, or the port
    for a connection that needs it.
    """
    if access.needs_port:
        return not rule.names_port
    return rule.is_whole_tool and access.url is not None and is_local_host(url_host(access.url))


def _names_call(rule: Rule, access: Access) -> bool:
    if rule.is_whole_tool:
        return True
    if access.command is not None:
        return False  # command patterns are matched against the commands of the line
    return rule.matches_url(access.url) if access.url is not None else rule.matches_subject(access.subject)
