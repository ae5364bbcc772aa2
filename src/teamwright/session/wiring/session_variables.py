"""The variables that hooks set for later commands of a session: their file, and which ones are refused."""

from __future__ import annotations

from teamwright.config.settings.files import is_user_only_variable
from teamwright.hooks.session_variables import SessionVariables
from teamwright.processes.program_environment import form_of
from teamwright.protocol.secret_texts import holds_secret
from teamwright.session.preparation import SessionContext

_REFUSED_BEGINNINGS = ("GIT_", "LD_", "DYLD_", "LC_", "BASH")


def make_session_variables(context: SessionContext) -> SessionVariables:
    """Return the variables of the session, which all of its processes share."""
    return SessionVariables(context.home.session_variables(context.id), variable_refusal)


def variable_refusal(name: str, value: str) -> str:
    """Return why a hook may not set the variable, or an empty text.

    A verdict on a command reads no value of a variable that a hook may set: it is unknown to it, as those of settings.
    """
    if holds_secret(name, value):
        return "it holds a secret, and commands get those from bash.pass_env alone"
    if is_user_only_variable(name) or name.startswith(_REFUSED_BEGINNINGS) or form_of(name) or _is_read_by_shells(name):
        return "such a variable decides what programs run or where they connect: only your own settings may set it"
    return ""


def _is_read_by_shells(name: str) -> bool:
    """Return True for a variable that a shell evaluates, or that the verdict on a line reads from the environment."""
    from teamwright.permissions.variable_assignments import is_script_variable  # only for a file with variables
    from teamwright.shell_lines.evaluated_text import INTEGER_VARIABLES, READ_BY_SHELLS, RUN_BY_PROGRAMS
    from teamwright.shell_lines.expansion import READ_FROM_ENVIRONMENT

    return (
        name in {"IFS", "GLOBIGNORE", "PWD", "OLDPWD"} | READ_FROM_ENVIRONMENT | INTEGER_VARIABLES | READ_BY_SHELLS
        or (RUN_BY_PROGRAMS.search(name) is not None and not name.endswith("_ENV"))  # NODE_ENV is a word
        or (name.islower() and not is_script_variable(name))
    )
