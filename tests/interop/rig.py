"""A team of ours whose members may be stand-ins that it starts itself, and what these log."""

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path

from teamwright import MessageSent, Team
from teamwright.storage.file_watcher import Watcher
from teamwright.testing import ScriptedModel
from tests.simulated_product.running import MEMBER, command
from tests.support.waits import WAIT_S
from tests.teams.watched import Told


class Started:
    """What is to be known of the stand-ins that a team starts: their scripts by name, and their logs."""

    def __init__(self, place: Path, format_: str, root: Path) -> None:
        self.place, self.format, self.root = place, format_, root

    def settings(self, members: dict, *, backend: str = "detached", **more) -> Path:
        """A settings file with the command `other`; `more` are settings, or parts of the command in `other`."""
        scripts = self.place / "scripts.json"
        scripts.write_text(json.dumps({"members": members}))
        env = {"STRANGER_SCRIPT": str(scripts), "STRANGER_LOG": str(self.place / "{name}.log")}
        env["CLAUDE_CONFIG_DIR"] = str(self.root)
        said = {"argv": command(MEMBER, self.format), "env": env, **more.pop("other", {})}
        file = self.place / "settings.json"
        file.write_text(json.dumps({"members": {"commands": {"other": said}, "backend": backend}, **more}))
        return file

    def log(self, name: str) -> list[dict]:
        """What the member of this name logged so far."""
        path = self.place / f"{name}.log"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    async def seen(self, name: str, kind: str, has: str = "", **fits) -> dict:
        """The first such line of its log, awaited by the file."""

        def found(line: dict) -> bool:
            fitting = line["kind"] == kind and has in line.get("text", "")
            return fitting and all(line.get(key) == value for key, value in fits.items())

        grown = asyncio.Event()
        async with Watcher() as watcher, asyncio.timeout(WAIT_S):
            watcher.follow(self.place / f"{name}.log", grown.set)
            while not (lines := [line for line in self.log(name) if found(line)]):
                await grown.wait()
                grown.clear()
        return lines[0]


@asynccontextmanager
async def a_crew(tmp_path, settings, model=None, **options):
    """A team, and all that is told of it."""
    model = model or ScriptedModel("ok")
    async with Team("crew", model=model, cwd=tmp_path, settings_file=settings, **options) as team:
        yield team, Told(team)


def pid_of(team: Team, name: str) -> int:
    """The process of a member that was started."""
    return int(team.session.team.members[name].location.facts["pid"])


def runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def rested(team: Team, name: str) -> None:
    """Until the member rests."""
    crew = team.session.team
    async with asyncio.timeout(WAIT_S):
        while not crew.members[name].is_resting:
            crew.changed.clear()
            await crew.changed.wait()


def told_lead(heard: Told) -> list:
    return heard.of(MessageSent, member="system", to="team-lead", wire="teammate_terminated")
