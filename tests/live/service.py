"""Which services the live suite tries, what it may cost, and the program as it is started for it.

Models are those that TEAMWRIGHT_LIVE_MODEL names, with commas between, else a small one of each service whose key is
set.
"""

import json
import os
from collections.abc import Mapping

from tests.ui.program import Program

REAL = dict(os.environ)
"""The environment as it was before every test got one without keys."""

ASKED = bool(REAL.get("TEAMWRIGHT_LIVE"))

USD_EACH = 0.25
"""Most money that one run may use; a test makes one or two."""

TOKENS_EACH = 150_000
"""Most tokens that one run may use where the price is not known."""

ANSWER_MOST = 4_000
"""Tokens of one answer at most."""

SMALL = {
    "ANTHROPIC_API_KEY": "haiku",
    "ANTHROPIC_AUTH_TOKEN": "haiku",
    "OPENAI_API_KEY": "openai/gpt-6-luna",
    "GEMINI_API_KEY": "google/gemini-3.8-flash",
    "GOOGLE_API_KEY": "google/gemini-3.8-flash",
}
"""A small model for each key."""

UNNAMED = {
    "OPENROUTER_API_KEY": "OPENROUTER_API_KEY is set, and what OpenRouter serves changes: name a model, "
    "TEAMWRIGHT_LIVE_MODEL=openrouter/… make live",
    "AWS_BEARER_TOKEN_BEDROCK": "AWS_BEARER_TOKEN_BEDROCK is set, and ids at Bedrock have a region: name a model, "
    "TEAMWRIGHT_LIVE_MODEL=bedrock/… make live",
}

NOT_ASKED = "this asks a real service and costs money: make live"
NO_KEY = (
    "no key of a service is set: set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, "
    "or name a model, TEAMWRIGHT_LIVE_MODEL=ollama/NAME make live"
)


def models(env: Mapping[str, str]) -> list[str]:
    """The models to try."""
    named = [name.strip() for name in env.get("TEAMWRIGHT_LIVE_MODEL", "").split(",") if name.strip()]
    return list(dict.fromkeys(named or [SMALL[key] for key in SMALL if env.get(key, "").strip()]))


def why_none(env: Mapping[str, str]) -> str:
    """Why there is none."""
    return next((why for key, why in UNNAMED.items() if env.get(key, "").strip()), NO_KEY)


class Live(Program):
    """The program with the real environment, and caps on every run."""

    model = ""

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in REAL.items() if not name.startswith(("TEAMWRIGHT", "CLAUDE"))}
        kept.pop("CI", None)
        return kept | {"HOME": os.environ["HOME"], "TEAMWRIGHT_HOME": str(self.home)} | self.env

    @property
    def capped(self) -> list[str]:
        """The flags of every run."""
        found = json.loads(self.run("doctor", "--json", "--model", self.model).stdout)["findings"]
        known = any(row["label"] == "price" and row["verdict"] == "ok" for row in found)
        return ["--max-budget-usd", str(USD_EACH)] if known else ["--max-tokens", str(TOKENS_EACH)]
