"""Commands that speak with a person's authority, and are not for a command that an agent runs.

An agent's shell is marked by a variable. Whoever lets an agent run any program at all trusts it with more than this:
the mark keeps an honest agent from answering for its user, it is no wall.
"""

from __future__ import annotations

import os

from teamwright.protocol.errors import UsageError

MARK = "TEAMWRIGHT"
"""Set in every command that an agent runs."""


def require_person(does: str) -> None:
    """Raises UsageError (`not-for-agents`) inside an agent's command. `does` says what only a person does."""
    if os.environ.get(MARK):
        raise UsageError(
            "not-for-agents",
            f"only a person {does}, and this is a command that an agent runs",
            looked_at=[("variable", f"{MARK} is set")],
            do=["say in your answer what you need, and why"],
            note="nothing was changed",
        )
