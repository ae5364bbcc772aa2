"""The object form of a message: a request or an answer of the team protocol."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from teamwright.agent.tool_input import ToolInput

PLAN_ANSWER_TYPE = "plan_approval_response"


class StructuredMessage(ToolInput):
    """Message of the protocol."""

    type: Literal[
        "shutdown_request", "shutdown_response", "permission_response", "plan_approval_response", "set_mode"
    ] = Field(description="Kind of message.")
    request_id: str | None = Field(None, description="Id of the request.")
    approve: bool | None = Field(None, description="Your answer.")
    reason: str | None = Field(None, description="Reason.")
    feedback: str | None = Field(None, description="Changes that a plan needs.")
    updated_input: dict[str, Any] | None = Field(None, description="Input to run instead.")
    mode: str | None = Field(None, description="Permission mode.")
