"""The function `run`: one prompt in a session that starts and ends with the call."""

from __future__ import annotations

import asyncio
from typing import Unpack

from teamwright.api.argument_checks import require_prompt
from teamwright.api.options import TeamOptions, to_session_options
from teamwright.protocol.errors import UsageError
from teamwright.protocol.messages import text_block
from teamwright.session.open import open_session
from teamwright.session.options import Options
from teamwright.session.result import Result


async def run_once(prompt: str, options: Options) -> Result:
    """Run one prompt in a new session, and end the session."""
    async with open_session(options) as session:
        return await session.end_members(await session.run([text_block(prompt)]))


def run(prompt: str, **options: Unpack[TeamOptions]) -> Result:
    """Run one prompt in a new session and return its result. The lead may create a team.

    Raises CannotStart when the session cannot start, and UsageError inside a running event loop (a notebook, a web
    server), for an empty prompt and for an invalid option.
    """
    session_options = to_session_options(options)
    require_prompt(prompt)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_once(prompt, session_options))
    raise UsageError(
        "usage",
        "run() does not work inside a running event loop, as in a notebook or a web server",
        do=['async with Team("…") as team: result = await team.run("…")'],
        note="nothing was started",
    )
