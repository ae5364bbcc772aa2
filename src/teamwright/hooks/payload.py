"""What a hook is told: the ecosystem's keys, and ours that say whose event it is.

Pure: values in, an object for JSON out. Every event has one function here and a golden file in the tests. Format:
docs/hooks.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from teamwright.protocol.values import dataclass

LEAD, TEAMMATE, SUBAGENT = "lead", "teammate", "subagent"

MAX_RESPONSE = 100_000
"""Characters of a tool's result that a hook is told."""


@dataclass(frozen=True, slots=True)
class HookAgent:
    """Whose event it is. `transcript` is the session's, `own` the agent's; `parent` the name or id of its caller.

    `kind` is lead, teammate or subagent; `generation` counts the lives of the name.
    """

    session: str
    transcript: Path
    kind: str = LEAD
    name: str = ""
    agent_id: str = ""
    agent_type: str = ""
    team: str = ""
    parent: str = ""
    generation: int = 1
    own: Path | None = None

    @property
    def key(self) -> str:
        """Names this life among all of a session."""
        return f"{self.kind}:{self.agent_id or self.session}:{self.generation}"


def common_fields(agent: HookAgent, cwd: Path, mode: str) -> dict[str, Any]:
    """What every event has."""
    made: dict[str, Any] = {
        "session_id": agent.session,
        "transcript_path": str(agent.transcript),
        "cwd": str(cwd),
        "permission_mode": mode,
        "kind": agent.kind,
        "parent": agent.parent,
        "generation": agent.generation,
    }
    if agent.kind != LEAD:
        made |= {"agent_id": agent.agent_id, "agent_type": agent.agent_type}
    if agent.kind == TEAMMATE:
        made |= {"teammate_name": agent.name, "team_name": agent.team}
    return made


def session_start(source: str, model: str) -> dict[str, Any]:
    """`source` is startup, resume, clear or compact."""
    return {"source": source, "model": model}


def session_end(reason: str, outcome: str = "done") -> dict[str, Any]:
    """`reason` is clear, logout, prompt_input_exit or other; `outcome` done, or crashed when it is told afterwards."""
    return {"reason": reason, "outcome": outcome}


def user_prompt_submit(prompt: str) -> dict[str, Any]:
    """The words that are about to reach the lead."""
    return {"prompt": prompt}


def pre_tool_use(tool: str, input: Mapping[str, Any], tool_use_id: str) -> dict[str, Any]:
    """A validated call that is about to be decided on; `use` is the model's own id of it."""
    return {"tool_name": tool, "tool_input": dict(input), "tool_use_id": tool_use_id}


def post_tool_use(tool: str, input: Mapping[str, Any], tool_use_id: str, response: Mapping[str, Any]) -> dict[str, Any]:
    """A call that went well, with what it gave back."""
    return {**pre_tool_use(tool, input, tool_use_id), "tool_response": dict(response)}


def tool_failure(
    tool: str, input: Mapping[str, Any], tool_use_id: str, error: str, *, interrupted: bool
) -> dict[str, Any]:
    """A call that ran and failed, with what the model reads of it; or that an interrupt cut off."""
    return {**pre_tool_use(tool, input, tool_use_id), "error": error[:MAX_RESPONSE], "is_interrupt": interrupted}


def tool_response(tool: str, input: Mapping[str, Any], content: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """A result as hooks read it: its text, what it tells programs, and the names that hooks look for."""
    text = content[:MAX_RESPONSE]
    made: dict[str, Any] = {**facts, "content": text, "success": True}
    if "file_path" in input:
        made["filePath"] = input["file_path"]
    if tool == "Bash":
        made |= {"stdout": text, "stderr": "", "interrupted": False}
    return made


def permission_request(
    tool: str, input: Mapping[str, Any], tool_use_id: str, suggestions: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Somebody would have to be asked; `suggestions` is what may be granted along with a yes, as on the wire."""
    return {**pre_tool_use(tool, input, tool_use_id), "permission_suggestions": [dict(one) for one in suggestions]}


def stop(text: str, *, is_repeated: bool) -> dict[str, Any]:
    """The lead has answered, or a teammate is about to rest. `again`: it went on because a hook had asked for it."""
    return {"stop_hook_active": is_repeated, "last_assistant_message": text}


def subagent_start(agent: HookAgent) -> dict[str, Any]:
    """An agent begins to run in this process."""
    return {"agent_transcript_path": str(agent.own or "")}


def subagent_stop(
    agent: HookAgent, text: str, outcome: str, detail: str = "", *, is_repeated: bool = False
) -> dict[str, Any]:
    """An agent's end. `outcome` is done, failed, limit, cancelled, killed, suspended or crashed."""
    return {
        **stop(text, is_repeated=is_repeated),
        "agent_transcript_path": str(agent.own or ""),
        "outcome": outcome,
        "detail": detail,
    }


def task_event(id: str, subject: str, description: str, by: str, team: str) -> dict[str, Any]:
    """A task that was made, or is about to be completed, by that member."""
    made: dict[str, Any] = {"task_id": id, "task_subject": subject, "task_description": description}
    return {**made, "teammate_name": by, "team_name": team}


def pre_compact(trigger: str, instructions: str = "") -> dict[str, Any]:
    """A conversation is about to be shortened; `trigger` is manual or auto."""
    return {"trigger": trigger, "custom_instructions": instructions}


def post_compact(trigger: str, summary: str) -> dict[str, Any]:
    """A conversation was shortened to that summary."""
    return {"trigger": trigger, "compact_summary": summary}


def notification(kind: str, message: str, title: str = "Teamwright") -> dict[str, Any]:
    """A person should look: `kind` is permission_prompt, question_prompt, idle_prompt or run_failed."""
    return {"message": message, "title": title, "notification_type": kind}
