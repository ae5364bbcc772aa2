"""Texts of background hooks, delivered to the agent of their event: the lead, a teammate or a sub-agent.

Depends on the team. Without a team, or when the agent has ended, the text is dropped.
"""

from __future__ import annotations

from collections.abc import Callable

from teamwright.hooks import payload
from teamwright.hooks.payload import HookAgent
from teamwright.teams.team import SessionTeam


def deliver_text(current_team: Callable[[], SessionTeam | None], agent: HookAgent, text: str, wakes: bool) -> None:
    """Deliver a text to this agent. Without `wakes` an idle lead or teammate receives it with its next turn."""
    team = current_team()
    if team is None:
        return
    if agent.kind == payload.LEAD:
        if team.lead is not None:
            team.lead.notify(text, wakes=wakes)
    elif agent.kind == payload.SUBAGENT:
        if team.subagents is not None:
            team.subagents.notify_run(agent.agent_id, text, "")
    elif (teammate := team.find_in_process(agent.name)) is not None:
        mail = teammate.incoming
        mail.notices.put_notice(mail.conversation.tags, text)
        if wakes:
            mail.wake()
