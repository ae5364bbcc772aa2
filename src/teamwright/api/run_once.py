"""The one call for scripts: a session for one prompt, from its start to its end, in a loop of its own.

Knows the session; knows no team that a program holds.
"""

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
    """One prompt in a session of its own, seen through to the end."""
    async with open_session(options) as session:
        return await session.end_members(await session.run([text_block(prompt)]))


def run(prompt: str, **options: Unpack[TeamOptions]) -> Result:
    """One call for scripts: a session for this prompt alone, in which the lead may form a team.

    Raises CannotStart when nothing could begin, UsageError inside a running event loop (a notebook, a web server),
    for an empty prompt and for an option that cannot be.
    """
    wanted = to_session_options(options)
    require_prompt(prompt)
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run_once(prompt, wanted))
    raise UsageError(
        "usage",
        "run() does not work inside a running event loop, as in a notebook or a web server",
        do=['async with Team("…") as team: result = await team.run("…")'],
        note="nothing was started",
    )
