"""Names of attributes, spans and metrics.

`gen_ai.*` are those of the semantic conventions for generative AI, first release 0.1.0
(https://github.com/open-telemetry/semantic-conventions-genai), all in development; `teamwright.*` are ours, because the
conventions know no teams. The names are listed here, so that an upgrade of the SDK renames nothing.
"""

from __future__ import annotations

CONVENTIONS = "https://opentelemetry.io/schemas/gen-ai/0.1.0"
"""The schema address of the instrumentation scope."""

OPERATION = "gen_ai.operation.name"
CHAT, EXECUTE_TOOL, INVOKE_AGENT = "chat", "execute_tool", "invoke_agent"
CONVERSATION = "gen_ai.conversation.id"
AGENT_NAME = "gen_ai.agent.name"
AGENT_DESCRIPTION = "gen_ai.agent.description"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_creation.input_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOKEN_TYPE = "gen_ai.token.type"
ERROR_TYPE = "error.type"

AGENT_ID = "agent_id"
PARENT_AGENT_ID = "parent_agent_id"
"""Names that Claude Code's spans have for a sub-agent and the agent that started it."""

SESSION = "teamwright.session.id"
TEAM = "teamwright.team.name"
MEMBER = "teamwright.member.name"
INCARNATION = "teamwright.member.incarnation"
MEMBER_STATE = "teamwright.member.state"
TURN = "teamwright.turn.number"
STOP = "teamwright.turn.stop"
TASK = "teamwright.task.id"
CALL = "teamwright.call.id"
OUTCOME = "teamwright.call.outcome"
PURPOSE = "teamwright.model_call.purpose"
REQUEST_ID = "teamwright.model_call.request_id"
COST_USD = "teamwright.cost.usd"
REQUEST_KIND = "teamwright.request.kind"
VERDICT = "teamwright.request.verdict"
ANSWERED_BY = "teamwright.request.answered_by"
HOOK_EVENT = "teamwright.hook.event"
HOOK_KIND = "teamwright.hook.kind"
CUT_OFF = "teamwright.cut_off"
"""True for a span whose end no event reports: its process was killed."""

TOKEN_USAGE = "gen_ai.client.token.usage"
OPERATION_DURATION = "gen_ai.client.operation.duration"
COST = "teamwright.cost"
ACTIVE_TIME = "teamwright.active_time"
WAIT_TIME = "teamwright.wait_for_person"
TASKS = "teamwright.tasks"
INTEGRATION_QUEUE = "teamwright.integration.queue"
OPEN_REQUESTS = "teamwright.requests.open"

MAX_TEXT = 60_000
"""The most characters of a text in an attribute: collectors refuse larger ones. Claude Code cuts there too."""
