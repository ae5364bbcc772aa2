"""The settings of commands, and their environment. Depends on the texts of secrets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Struct

from teamwright.protocol.secret_texts import holds_secret
from teamwright.protocol.setting_types import Count, Seconds, Setting, Switch, Text, Texts

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

    timeout_s: Annotated[
        Seconds, Setting("bash.timeout_s", "How long a command may run if the call sets no timeout.")
    ] = 120.0
    max_timeout_s: Annotated[Seconds, Setting("bash.max_timeout_s", "The longest timeout of a command.")] = 600.0
    max_output: Annotated[
        Count,
        Setting("bash.output_chars", "Characters of output in a result; the rest is in a file."),
    ] = 30_000
    grace_s: float = 2.0
    hidden: tuple[str, ...] = HIDDEN_VARIABLES
    pass_env: Annotated[
        Texts,
        Setting(
            "bash.pass_env",
            "Variables that are passed to commands although they look like secrets; a * at the end matches any suffix.",
            user_only=True,
        ),
    ] = ()
    shell: Annotated[
        Text,
        Setting(
            "bash.shell",
            "The shell that runs commands: bash, zsh, sh, or a path; none: your $SHELL.",
            user_only=True,
        ),
    ] = ""
    startup: Annotated[
        Switch,
        Setting("bash.startup", "Whether commands have your shell's functions, aliases and PATH.", user_only=True),
    ] = True
    """True: they start with the snapshot of the shell's startup files."""
    startup_s: Annotated[
        Seconds, Setting("bash.startup_s", "How long the startup of your shell may take.", user_only=True)
    ] = 10.0
    records_changes: Annotated[
        Switch,
        Setting(
            "undo.bash_changes",
            "Whether changes of files by commands are recorded for diff, undo and review.",
            user_only=True,
        ),
    ] = True


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
