"""The process of a demo run, which may be killed at any time: `python -m teamwright.ui.demo.demo_process`.

It reads a JSON object from stdin, and resumes the session if it exists or starts it otherwise. It prints nothing:
`recovery_demo` follows the session's log.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.messages import text_block
from teamwright.saved.run_repository import Repository
from teamwright.saved.sessions import find_session
from teamwright.session.open_session import open_session
from teamwright.team_records.snapshots import resolve_home
from teamwright.ui.demo.demo import SCRIPTED_PROMPT, demo_options, demo_team_name
from teamwright.ui.display_text import clean


class DemoSpec(Struct, frozen=True):
    """The parameters of a process: the repository (top, name, commit), the state root, the session's id, the pace."""

    top: str
    name: str
    commit: str
    home: str | None
    session: str
    pace_ms: int

    def encode(self) -> bytes:
        """Encode the parameters for stdin of the process."""
        return json.dumps(asdict(self)).encode()


async def run_process(spec: DemoSpec) -> int:
    """Start or resume the session, run until the team is done, and return the exit code of its result."""
    place = Repository(Path(spec.top), spec.name, spec.commit)
    resumes = _session_exists(spec, place)
    options = demo_options(place, home=spec.home, pace_ms=spec.pace_ms, session=spec.session, resumes=resumes)
    async with open_session(options) as session:
        if back := str(session.resumed):
            session.log.emit(Notice(member=LEAD, text=f"resumed: {back}"))
        begun = bool(session.lead.agent.conversation.items)
        if not begun and not session.team.exists:
            await session.archive_team(demo_team_name(place))
        prompt = SCRIPTED_PROMPT.replace("{team}", demo_team_name(place))
        result = await session.end_members(await session.run([] if begun else [text_block(prompt)]))
    if result.error is not None:
        sys.stderr.write(clean(result.error.render()) + "\n")
    return result.exit_code


def _session_exists(spec: DemoSpec, repository: Repository) -> bool:
    try:
        return bool(find_session(resolve_home(spec.home), repository.top, spec.session))
    except TeamwrightError:
        return False


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(run_process(DemoSpec(**json.load(sys.stdin)))))
    except TeamwrightError as problem:
        sys.stderr.write(clean(problem.render()) + "\n")
        sys.exit(problem.exit_code)
