"""Which dialect a service is spoken to in. What a dialect needs is loaded when its provider is named."""

from __future__ import annotations

from teamwright.models.dialects.dialect import Dialect
from teamwright.models.endpoint import Endpoint
from teamwright.models.model import ModelCard


def dialect_of(card: ModelCard, endpoint: Endpoint) -> Dialect | None:
    """The dialect of an endpoint's API; None is the Messages API."""
    match endpoint.api:
        case "messages":
            return None
        case "openai-chat":
            from teamwright.models.dialects.openai_chat import OpenAiChat

            return OpenAiChat(endpoint)
        case "openai-responses":
            from teamwright.models.dialects.openai_responses import OpenAiResponses

            return OpenAiResponses(endpoint)
        case "gemini":
            from teamwright.models.dialects.gemini import Gemini

            return Gemini(endpoint, card.wire)
        case "bedrock":
            from teamwright.models.dialects.bedrock import Bedrock

            return Bedrock(endpoint, card.wire, caching=card.caching)
