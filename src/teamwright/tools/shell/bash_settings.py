"""The settings of commands, and their environment. Depends on the texts of secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from msgspec import Struct

from teamwright.protocol.secret_texts import holds_secret

COMMAND_ENVIRONMENT: Mapping[str, str] = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_OPTIONAL_LOCKS": "0",
    "TERM": "dumb",
}
"""The environment of every command: no pager, prompt or editor starts, because no person could answer, and a command
that only reads a repository takes no lock of it, so that the `git commit` of another agent does not fail."""

HIDDEN_VARIABLES = (
    "ANTHROPIC_*",
    "OPENROUTER_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "DEEPSEEK_API_KEY",
)
"""Credentials of model services, which commands do not get. A `*` at the end matches any text."""


class BashSettings(Struct, frozen=True):
    """Limits of commands, and the variables that are hidden from them."""

    timeout_s: float = 120.0
    max_timeout_s: float = 600.0
    max_output: int = 30_000
    """Characters of output in the result; the rest is in a file."""
    grace_s: float = 2.0
    hidden: tuple[str, ...] = HIDDEN_VARIABLES
    pass_env: Sequence[str] = ()
    """Variables that commands get although they look like secrets; a `*` at the end matches any text."""
    shell: str = ""
    """The shell of commands by name or path; empty: the user's own."""
    startup: bool = True
    """True when commands start with the snapshot of the shell's startup files."""
    startup_s: float = 10.0
    records_changes: bool = True
    """True when changes of files by commands are recorded for undo."""


def remove_variables(hidden: Sequence[str], env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return an environment without these variables (a `*` at the end matches any text). None: that of this process."""
    begins = tuple(name[:-1] for name in hidden if name.endswith("*"))
    return {
        name: value
        for name, value in (os.environ if env is None else env).items()
        if name not in hidden and not (begins and name.startswith(begins))
    }


def command_environment(settings: BashSettings, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of an agent's command, without credentials of models and of other services.

    `pass_env` of the settings names variables that look like credentials of other services and are passed on.
    """
    seen = remove_variables(settings.hidden, env)
    passed = seen.keys() - remove_variables(tuple(settings.pass_env), seen).keys()
    return {name: value for name, value in seen.items() if name in passed or not holds_secret(name, value)}
