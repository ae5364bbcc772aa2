"""Succession: a session's own team makes way for the one that the session leads now.

What the lead had not seen goes along under the same ids; after a kill in between it is done again, and nothing comes
twice. Knows inboxes and team files; does not know why there is another team.
"""

from __future__ import annotations

from teamwright.mail.inbox import inbox_for
from teamwright.protocol.ids import LEAD
from teamwright.protocol.task import TaskStatus
from teamwright.storage.paths import Home
from teamwright.tasks.task_list import TaskList
from teamwright.teams.archive import archive_team
from teamwright.teams.team_file import read_team_file


async def make_way(home: Home, old: str, new: str, session: str) -> bool:
    """Move the lead's unread mail from the team in `old` to that in `new`, and put `old` into the archive.

    False, and nothing done, when there is no team in `old` that this session leads. Raises StorageError, LockTimeout.
    """
    file = read_team_file(home.team_file(old)) if old != new else None
    if file is None or file.lead.session != session:
        return False
    left, right = (
        inbox_for(path := home.inbox(place, LEAD), home.guard(path), home.inbox_archive(place, LEAD))
        for place in (old, new)
    )
    for entry in await left.unread():
        if entry.msg_id and not await right.has(entry.msg_id):
            await right.send(entry, runtime=True)
    tasks = TaskList(home.tasks(old), home.guard)
    done = all(task.status is TaskStatus.COMPLETED for task in await tasks.all())
    if done and not tasks.store.damaged_tasks():  # a number that is taken in `new` stays where it is
        await archive_team(home, old)
    return True
