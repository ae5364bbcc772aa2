"""Payloads of hooks: the ecosystem's keys, and keys of Teamwright that identify the agent.

Converts values to an object for JSON. Every event has one function here and a golden file in the tests. Format:
docs/reference/hooks.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

LEAD, TEAMMATE, SUBAGENT = "lead", "teammate", "subagent"

MAX_RESPONSE = 100_000
"""Characters of a tool's result that a hook receives."""


class HookAgent(Struct, frozen=True):
    """The agent of an event. `transcript` is the session's, `own` the agent's; `parent` the name or id of its caller.

    `kind` is lead, teammate or subagent; `generation` is the incarnation of the name.
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
        """The key of this incarnation among all of a session."""
        return f"{self.kind}:{self.agent_id or self.session}:{self.generation}"


def common_fields(agent: HookAgent, cwd: Path, mode: str) -> dict[str, Any]:
    """Return the keys of every event."""
    fields: dict[str, Any] = {
        "session_id": agent.session,
        "transcript_path": str(agent.transcript),
        "cwd": str(cwd),
        "permission_mode": mode,
        "kind": agent.kind,
        "parent": agent.parent,
        "generation": agent.generation,
    }
    if agent.kind != LEAD:
        fields |= {"agent_id": agent.agent_id, "agent_type": agent.agent_type}
    if agent.kind == TEAMMATE:
        fields |= {"teammate_name": agent.name, "team_name": agent.team}
    return fields


def session_start(source: str, model: str) -> dict[str, Any]:
    """Return the payload. `source` is startup, resume, clear or compact."""
    return {"source": source, "model": model}


def setup(trigger: str) -> dict[str, Any]:
    """Return the payload of a run that a person started with `--init` or `--maintenance`; `trigger` is its name."""
    return {"trigger": trigger}


def session_end(reason: str, outcome: str = "done") -> dict[str, Any]:
    """Return the payload. `reason` is clear, logout, prompt_input_exit or other; `outcome` done, or crashed when it is
    sent afterwards."""
    return {"reason": reason, "outcome": outcome}


def user_prompt_submit(prompt: str) -> dict[str, Any]:
    """Return the payload of a prompt that is about to reach the lead."""
    return {"prompt": prompt}


def pre_tool_use(tool: str, input: Mapping[str, Any], tool_use_id: str) -> dict[str, Any]:
    """Return the payload of a validated call before its verdict; `tool_use_id` is the model's id of it."""
    return {"tool_name": tool, "tool_input": dict(input), "tool_use_id": tool_use_id}


def post_tool_use(tool: str, input: Mapping[str, Any], tool_use_id: str, response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of a successful call, with its result."""
    return {**pre_tool_use(tool, input, tool_use_id), "tool_response": dict(response)}


def tool_failure(
    tool: str, input: Mapping[str, Any], tool_use_id: str, error: str, *, interrupted: bool
) -> dict[str, Any]:
    """Return the payload of a call that ran and failed, with the text for the model; or that an interrupt ended."""
    return {**pre_tool_use(tool, input, tool_use_id), "error": error[:MAX_RESPONSE], "is_interrupt": interrupted}


def tool_response(tool: str, input: Mapping[str, Any], content: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result as hooks read it: its text, its data for programs, and the names that hooks expect."""
    text = content[:MAX_RESPONSE]
    fields: dict[str, Any] = {**facts, "content": text, "success": True}
    if "file_path" in input:
        fields["filePath"] = input["file_path"]
    if tool == "Bash":
        fields |= {"stdout": text, "stderr": "", "interrupted": False}
    return fields


def permission_request(
    tool: str, input: Mapping[str, Any], tool_use_id: str, suggestions: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the payload of a call that needs an approver; `suggestions` are the possible grants along with a yes, in
    the wire format."""
    return {**pre_tool_use(tool, input, tool_use_id), "permission_suggestions": [dict(one) for one in suggestions]}


def stop(text: str, *, is_repeated: bool) -> dict[str, Any]:
    """Return the payload after the lead's answer, or before a teammate goes idle. `is_repeated`: it continued because
    of a hook."""
    return {"stop_hook_active": is_repeated, "last_assistant_message": text}


def subagent_start(agent: HookAgent) -> dict[str, Any]:
    """Return the payload of an agent that starts to run in this process."""
    return {"agent_transcript_path": str(agent.own or "")}


def subagent_stop(
    agent: HookAgent, text: str, outcome: str, detail: str = "", *, is_repeated: bool = False
) -> dict[str, Any]:
    """Return the payload of an agent's end. `outcome` is done, failed, limit, cancelled, killed, suspended or
    crashed.
    """
    return {
        **stop(text, is_repeated=is_repeated),
        "agent_transcript_path": str(agent.own or ""),
        "outcome": outcome,
        "detail": detail,
    }


def task_event(id: str, subject: str, description: str, by: str, team: str) -> dict[str, Any]:
    """Return the payload of a task that was created, or is about to be completed, by that member."""
    fields: dict[str, Any] = {"task_id": id, "task_subject": subject, "task_description": description}
    return {**fields, "teammate_name": by, "team_name": team}


def pre_compact(trigger: str, instructions: str = "") -> dict[str, Any]:
    """Return the payload before a compaction; `trigger` is manual or auto."""
    return {"trigger": trigger, "custom_instructions": instructions}


def post_compact(trigger: str, summary: str) -> dict[str, Any]:
    """Return the payload after a compaction, with its summary."""
    return {"trigger": trigger, "compact_summary": summary}


def notification(kind: str, message: str, title: str = "Teamwright") -> dict[str, Any]:
    """Return the payload of a notification: `kind` is permission_prompt, question_prompt, idle_prompt or run_failed."""
    return {"message": message, "title": title, "notification_type": kind}


def stop_failure(error: str, details: str, text: str) -> dict[str, Any]:
    """Return the payload of a turn that a failure of the model's service ended; `error` is its kind."""
    return {"error": error, "error_details": details, "last_assistant_message": text}


def tool_batch(calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the payload after all calls of one answer; each call has the keys of `post_tool_use`."""
    return {"tool_calls": [dict(call) for call in calls]}


def prompt_expansion(kind: str, name: str, arguments: str, source: str) -> dict[str, Any]:
    """Return the payload of a typed command before its prompt is made. `kind` is slash_command or mcp_prompt."""
    fields = {"expansion_type": kind, "command_name": name, "command_args": arguments, "command_source": source}
    return {**fields, "prompt": f"/{name} {arguments}".rstrip()}


def elicitation(server: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of a form, or an address, that an MCP server shows; `params` are those of its request."""
    fields: dict[str, Any] = {"mcp_server_name": server, "message": params.get("message", "")}
    fields["mode"] = params.get("mode", "form")
    named = (("url", "url"), ("elicitationId", "elicitation_id"), ("requestedSchema", "requested_schema"))
    return fields | {key: params[wire] for wire, key in named if wire in params}


def elicitation_result(server: str, params: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the payload of the answer before the server receives it."""
    fields = {key: value for key, value in elicitation(server, params).items() if key != "requested_schema"}
    return {**fields, "action": answer.get("action", ""), "content": answer.get("content", {})}


def worktree_create(name: str) -> dict[str, Any]:
    """Return the payload of a worktree that a hook is to make for the agent of this name."""
    return {"name": name}


def worktree_remove(path: Path) -> dict[str, Any]:
    """Return the payload of a worktree that a hook made and is to remove."""
    return {"worktree_path": str(path)}
