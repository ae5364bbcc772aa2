"""A model service that answers the requests of the live check as it should."""

import json
from typing import Any

from teamwright.models.structured_answer import ANSWER_TOOL
from teamwright.testing.model_server_replies import Answer, ScriptedReply, Status
from teamwright.views.live_check_plan import RESULT_WORD, TOOL

CALLS = [(TOOL, {"word": "ready", "count": 7}), (TOOL, {"word": "steady", "count": 8})]
_SIGNS = {
    RESULT_WORD: "results",
    "Write all numbers": "limit",
    "Give the word": "schema",
    '"Hello"': "error",
    "Line 1 of": "long",
}


def purpose(body: dict[str, Any]) -> str:
    """What a request of the check is for, in any API."""
    text = json.dumps(body)
    return next((name for sign, name in _SIGNS.items() if sign in text), "calls")


def sound(body: dict[str, Any]) -> ScriptedReply:
    """The answer of a service that has all that the check looks for."""
    match purpose(body):
        case "calls":
            return Answer("Ready.", CALLS, usage=_usage(cache_creation_input_tokens=1_500))
        case "results":
            return Answer(RESULT_WORD, usage=_usage(cache_read_input_tokens=1_500))
        case "schema":
            value = {"word": "ready", "count": 7}
            forced = "tool_choice" in body and "messages" in body
            return Answer(tools=[(ANSWER_TOOL, value)]) if forced else Answer(json.dumps(value))
        case "limit":
            return Answer("one, two, three", thinking="Many numbers.", stop_reason="max_tokens")
        case "error":
            return Status(404)
        case _:
            return Answer("Yes.")


def _usage(**cached: int) -> dict[str, int]:
    return {"input_tokens": 40, "output_tokens": 30, **cached}
