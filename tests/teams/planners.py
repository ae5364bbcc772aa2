"""Parts for tests of plans: a member that plans, a lead that answers, and what the files say of both."""

import json
import re
from pathlib import Path

from teamwright.models.model import Request
from teamwright.protocol.messages import tool_calls
from teamwright.storage.paths import find_home
from tests.teams.crew import newest

REQUEST = re.compile(r"plan_approval-\d+@ada@crew")
SHOWN = re.compile(r'\\"request_id\\": \\"(plan_approval-\d+@ada@crew)\\", \\"approve\\": true')


def answer(request_id: str, approve: bool, feedback: str = "", **more):
    message = {"type": "plan_approval_response", "request_id": request_id, "approve": approve}
    message |= {"feedback": feedback} if feedback else {}
    return ("SendMessage", {"to": "ada", "message": message} | more)


def hand_in(plan: str = "# Plan\n1. Make it.", *prompts: str):
    given = {"allowedPrompts": [{"tool": "Bash", "prompt": one} for one in prompts]} if prompts else {}
    return ("ExitPlanMode", {"plan": plan} | given)


def said(request: Request) -> str:
    """The whole conversation of an agent, as text."""
    return "\n".join(item.decode() for item in request.items)


def made(request: Request, tool: str) -> list[dict]:
    """The inputs of the calls of this tool so far."""
    content = [json.loads(item) for item in request.items if b'"tool_use"' in item]
    return [call.input for one in content for call in tool_calls(one["content"]) if call.name == tool]


def shown_ids(request: Request) -> list[str]:
    """The ids of plans that this agent was asked to answer, in order, each once."""
    return list(dict.fromkeys(SHOWN.findall(said(request))))


def answered_ids(request: Request) -> list[str]:
    given = [call["message"] for call in made(request, "SendMessage") if isinstance(call.get("message"), dict)]
    return [one["request_id"] for one in given if one.get("type") == "plan_approval_response"]


def rows(team: str = "crew") -> dict[str, tuple[dict, dict | None]]:
    """Plan requests on disk, each with its answer."""
    box = find_home().requests(team)
    found = {}
    for path in sorted(box.glob("plan_approval-*.json")):
        if path.name.endswith(".answer.json"):
            continue
        reply = path.with_name(path.name.removesuffix(".json") + ".answer.json")
        body = json.loads(path.read_bytes())
        found[body["id"]] = (body, json.loads(reply.read_bytes()) if reply.exists() else None)
    return found


def record(agent: str = "ada") -> dict:
    """What is kept of an agent's plan mode."""
    (path,) = find_home().own.glob(f"projects/*/*/plans/{agent}.json")
    return json.loads(path.read_bytes())


def inbox(name: str, team: str = "crew") -> list[dict]:
    path = find_home().inbox(team, name)
    return json.loads(path.read_bytes()) if path.exists() else []


def wire(name: str, kind: str) -> list[dict]:
    """Protocol messages of that type in an inbox."""
    texts = [json.loads(entry["text"]) for entry in inbox(name) if entry["text"].startswith("{")]
    return [text for text in texts if text.get("type") == kind]


def touched(root: Path) -> bool:
    return (root / "made").exists()


__all__ = [
    "REQUEST",
    "answer",
    "answered_ids",
    "hand_in",
    "inbox",
    "made",
    "newest",
    "record",
    "rows",
    "said",
    "shown_ids",
    "touched",
    "wire",
]
