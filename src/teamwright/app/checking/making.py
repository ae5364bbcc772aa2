"""Assembly of a session's checks from its settings, its team file and what its agents' commands get."""

from __future__ import annotations

from dataclasses import replace

from teamwright.app.checking.allowed import Allowed
from teamwright.app.checking.checks import Checks
from teamwright.app.ground import Ground
from teamwright.app.looking.system import mask_secrets
from teamwright.app.making.maker import Maker
from teamwright.teams.team import Team
from teamwright.tools.shell.bash import MANNERS, environment_of_commands

ALLOWED = "checks.json"
"""The file in the session's directory with the commands that were allowed as checks."""


def checks_of(ground: Ground, maker: Maker, team: Team) -> Checks:
    """The checks of this session. What the team file says of all tasks goes before the setting."""
    settings, definition = ground.settings.check, ground.definition
    if definition is not None and definition.check:
        settings = replace(settings, command=definition.check)
    bash = maker.kit.bash
    return Checks(
        team,
        settings,
        Allowed(ground.home.session(ground.cwd, ground.id) / ALLOWED),
        maker.policy,
        lambda: {**environment_of_commands(bash, ground.env), **maker.env, **MANNERS},
        maker.kit.jobs,
        maker.emit,
        lambda command: mask_secrets(command, ground.env),
    )
