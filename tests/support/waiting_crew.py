"""A crew that waits for its first task: the scripts of its members, the calls in them, and the end of its work."""

from typing import Any

from teamwright import Task, Team
from tests.teams.crew import Holding, until


def write(path: str, content: str = "changed\n") -> tuple[str, dict[str, Any]]:
    return ("Write", {"file_path": path, "content": content})


def bash(command: str) -> tuple[str, dict[str, Any]]:
    return ("Bash", {"command": command})


def update(task: str, **more: Any) -> tuple[str, dict[str, Any]]:
    return ("TaskUpdate", {"taskId": task, **more})


def complete(task: str) -> tuple[str, dict[str, Any]]:
    return update(task, status="completed")


def waiting_scripts(**members: Any) -> dict[str, list[Any]]:
    """A lead that only answers, and members that start without a task and do their turns for what they claim."""
    return {"lead": ["ok"] * 30, **{name: ["Waiting.", *turns, *["Nothing."] * 20] for name, turns in members.items()}}


def waiting_crew(**members: Any) -> Holding:
    return Holding(waiting_scripts(**members))


async def finished(team: Team, count: int = 1) -> list[Task]:
    """Wait until this many tasks are finished and everybody rests."""
    while True:
        team.session.team.changed.clear()
        tasks = await team.tasks.all()
        if sum(task.is_finished for task in tasks) >= count and team.session.team.is_quiet():
            return tasks
        await until(team, team.session.team.changed.is_set)
