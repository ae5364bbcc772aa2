"""One life of the demo in a process of its own, to be killed at any moment: `python -m teamwright.ui.demo.life`.

Reads on stdin what to do (a JSON object), goes on with the session when it is there and begins it when not. Says
nothing: whoever watches follows the session's log. Used by `kill`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from teamwright.app.inspect import home_at
from teamwright.app.looking.sessions import find_session
from teamwright.app.opening import open_session
from teamwright.app.repository import Repository
from teamwright.protocol.blocks import text_block
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.values import dataclass
from teamwright.ui.demo.prompt import SCRIPTED_PROMPT
from teamwright.ui.demo.session import demo_options, team_of
from teamwright.ui.printable import clean


@dataclass(frozen=True, slots=True)
class Life:
    """What a life is told: the repository (its top, name and commit), the state root, the session's id, the pace."""

    top: str
    name: str
    commit: str
    home: str | None
    session: str
    pace_ms: int

    def encode(self) -> bytes:
        """As it goes to the process."""
        return json.dumps(asdict(self)).encode()


async def live(life: Life) -> int:
    """Begin the session, or go on with it, until the team is done; the exit code of its result."""
    place = Repository(Path(life.top), life.name, life.commit)
    resumes = _is_there(life, place)
    options = demo_options(place, home=life.home, pace_ms=life.pace_ms, session=life.session, resumes=resumes)
    async with open_session(options) as session:
        if back := str(session.resumed):
            session.log.emit(Notice(member=LEAD, text=f"resumed: {back}"))
        begun = bool(session.lead.agent.conversation.items)
        if not begun and not session.team.exists:
            await session.set_aside(team_of(place))
        prompt = SCRIPTED_PROMPT.replace("{team}", team_of(place))
        result = await session.settled(await session.run([] if begun else [text_block(prompt)]))
    if result.error is not None:
        sys.stderr.write(clean(result.error.render()) + "\n")
    return result.exit_code


def _is_there(life: Life, place: Repository) -> bool:
    try:
        return bool(find_session(home_at(life.home), place.top, life.session))
    except TeamwrightError:
        return False


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(live(Life(**json.load(sys.stdin)))))
    except TeamwrightError as problem:
        sys.stderr.write(clean(problem.render()) + "\n")
        sys.exit(problem.exit_code)
