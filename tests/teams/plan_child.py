"""One life of a session in which a member plans: it may be killed at its N-th write to the disk.

`python -m tests.teams.plan_child PLACE KILL_AT`: begins the team in PLACE, or goes on with it. Prints how many writes
there were when it came to its end.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from teamwright import Team
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.planners import answer, answered_ids, hand_in, made, said, shown_ids

WRITES = 0


def mortal(name: str, kill_at: int) -> None:
    """The call of the operating system, after which the process is killed when its turn has come."""
    real = getattr(os, name)

    def wrapped(*given, **more):
        global WRITES
        WRITES += 1
        if kill_at == WRITES:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*given, **more)

    setattr(os, name, wrapped)


def script(place: Path):
    """Everybody goes by the conversation alone, so that another process goes on with it."""

    def ada(request):
        told = said(request)
        if "Your plan was approved" in told or "Plan mode has ended" in told:
            done = any("echo" in call.get("command", "") for call in made(request, "Bash"))
            return "It is made." if done else ("Bash", {"command": f"echo made >> {place / 'made'}"})
        handed_in = told.count("waits for the lead")
        return hand_in(f"# Plan {handed_in + 1}") if handed_in <= told.count("was not approved") else "I wait."

    def lead(request):
        missing = [id for id in shown_ids(request) if id not in answered_ids(request)]
        if not missing:
            return "ok"
        return answer(missing[0], "# Plan 2" in said(request), "once more")

    return lambda request: ada(request) if request.agent_name == "ada" else lead(request)


def arm(kill_at: int) -> None:
    for one in ("write", "pwrite", "rename", "link"):
        mortal(one, kill_at)


async def main(place: Path, kill_at: int) -> None:
    begun = (place / "begun").exists()
    if begun:
        arm(kill_at)
    more = {"model": ScriptedModel(script(place)), "cwd": place, "permission_mode": "bypassPermissions"}
    async with asyncio.timeout(WAIT_S), Team.resume("crew", **more) if begun else Team("crew", **more) as team:
        if not begun:
            await team.spawn("ada", "Plan it, then make it.", mode="plan")
            (place / "begun").touch()
            arm(kill_at)
        await team.run("See it through.")
        teammate = team.session.team.members["ada"]
        for _ in range(3):
            if (place / "made").exists() and teammate.state == "idle":
                break
            await team.run("Go on.")
        assert str(teammate.agent.policy.effective_mode) == "bypassPermissions", teammate.state


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
    print(WRITES)
