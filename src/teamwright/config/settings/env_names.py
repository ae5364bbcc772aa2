"""Variables of `env` that a repository must not set: credentials, endpoints, and those that a shell reads at its start.

Names only; the environment is not read.
"""

from __future__ import annotations

import re

from teamwright.protocol.secret_texts import is_secret_name

_ENDPOINT = re.compile(
    r"BASE_?URL|ENDPOINT|(^|_)(URL|URI|HOST|PROXY)$|^(ANTHROPIC|CLAUDE|TEAMWRIGHT|OPENAI|OPENROUTER|OLLAMA|AWS|AZURE)_"
    r"|^(GOOGLE|GEMINI|VERTEX|BEDROCK)_|^(SSL_CERT|REQUESTS_CA|CURL_CA|NODE_EXTRA_CA|NODE_TLS)|^(HOME|USERPROFILE)$|^XDG_"
    # Variables that a shell reads at its start, or takes for a function.
    r"|^(BASH_ENV|ENV|ZDOTDIR|FPATH|SHELL|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4])$|^BASH_FUNC_",
    re.IGNORECASE,
)


def is_other_product_variable(name: str) -> bool:
    """Return True when the variable is a setting of the other product, without effect here."""
    return name.startswith("CLAUDE_")


def is_user_only_variable(name: str) -> bool:
    """Return True when only a person's own settings may set a variable of this name."""
    return is_secret_name(name) or _ENDPOINT.search(name) is not None
