"""What others do to the team's tasks: each change an event, and who has to give way is told.

Knows the task list and the team. Refuses to know how a change was noticed, and who made it: only an owner's name
that says of which session it is names somebody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from teamwright.protocol.events import Notice
from teamwright.protocol.ids import LEAD
from teamwright.protocol.task import Task, TaskStatus
from teamwright.tasks.outside import STEP, Outside
from teamwright.tasks.rules import kind_of_change, same
from teamwright.teams.mailing.notes import leave_note
from teamwright.teams.outside import OUTSIDE
from teamwright.teams.scribe.doubt import Doubt
from teamwright.teams.scribe.verifying import Verifier
from teamwright.teams.team import Team

PATIENCE_S = 1.0
"""A file that is not whole may still be being written: only after so long it counts as damaged."""

_Change = tuple[Task | None, Task | None]


class TaskScribe:
    """The changes of others in the list that the team uses now. `wake` has them looked at and told."""

    def __init__(self, team: Team, wake: Callable[[], None]) -> None:
        self._team = team
        self._wake = wake
        self._outside: Outside | None = None
        self._names: set[str] | None = set()
        self._changes: list[_Change] = []
        self._hurt: set[str] = set()
        self._told_hurt: set[str] = set()
        self._again: asyncio.TimerHandle | None = None
        self._verifier = Verifier(team)
        self._doubt = Doubt(team.outside, wake)

    def begin(self) -> None:
        """What is in the list now is known; what others do from now on is told. Raises StorageError."""
        self.end()
        self._outside = self._team.tasks.outside(self._changed)

    def end(self) -> None:
        """Nothing more is told of this list."""
        if self._outside is not None:
            self._outside.close()
            self._outside = None
        if self._again is not None:
            self._again.cancel()
            self._again = None
        self._names = set()
        self._changes.clear()
        self._doubt.clear()
        self._hurt.clear()
        self._told_hurt.clear()

    async def close(self) -> None:
        """The team is left: what was still being checked is not."""
        await self._verifier.close()

    def noticed(self, names: Iterable[str] | None) -> None:
        """Files of these names changed; None: any may have."""
        if names is None or self._names is None:
            self._names = None
        else:
            self._names.update(names)
        self._wake()

    async def look(self) -> None:
        """Look where something changed, and tell what others did. Raises StorageError, LockTimeout."""
        if self._outside is None:
            return
        if self._names is None or self._names:
            names, self._names = self._names, set()
            hurt = await self._outside.look(names)
            looked_at = {name.removesuffix(".json") for name in names} if names is not None else self._hurt | hurt
            await self._note_hurt(hurt, looked_at)
        await self._tell()

    def _changed(self, before: Task | None, after: Task | None) -> None:
        """Runs wherever the change is come upon, perhaps under a lock: only noted here."""
        if any(task is not None and task.internal for task in (before, after)):
            return
        if not self._doubt.hold((before, after)):
            self._changes.append((before, after))
        self._wake()

    async def _tell(self) -> None:
        self._changes += self._doubt.certain()
        count, freed = 0, False
        while self._changes:
            before, after = self._changes.pop(0)
            freed = _frees(after) or freed
            self._emit(before, after)
            self._verifier.noticed(before, after)
            if before is None and after is not None and after.status is TaskStatus.COMPLETED:
                self._emit(after.with_(status=TaskStatus.IN_PROGRESS), after)  # done before we looked: two events
            if before is not None and _taken_away(before, after):
                await self._give_way(before, after)
            if (count := count + 1) % STEP == 0:
                await asyncio.sleep(0)
        if not count:
            return
        self._team.talk.clear()
        if freed:
            self._team.ring_idle()
        self._team.changed.set()

    def _emit(self, before: Task | None, after: Task | None) -> None:
        task = after or before
        if task is None:
            return
        change = "deleted"
        if after is not None:
            free = before is not None and before.owner is None
            change = "created" if before is None else kind_of_change(before, after, (free and after.owner) or "")
        doer = (after and after.owner) or (before and before.owner) or ""
        self._team.tell_of_task(task, change, doer if "@" in doer else OUTSIDE)

    async def _give_way(self, before: Task, after: Task | None) -> None:
        """Another program took a task away from one of ours that has it in progress: both it and the lead are told."""
        mate = self._team.find(before.owner or "")
        name = mate.name if mate is not None else LEAD
        if mate is None and not same(before.owner, LEAD):
            return
        what = f'#{before.id} "{before.subject}"'
        became = _became(after)
        if name != LEAD:
            text = (
                f"Task {what} is no longer yours: another program {became}. Stop working on it and do not complete it. "
                "Tell the lead in a sentence how far you came, then take another task."
            )
            await leave_note(self._team, "task-list", name, text, f"#{before.id} is no longer yours")
        text = f"Task {what} was in progress with {name}, and another program {became}."
        text += f" {name} was asked to stop working on it." if name != LEAD else " Leave it to its new owner."
        await leave_note(self._team, "task-list", LEAD, text, f"#{before.id} was taken from {name}")

    async def _note_hurt(self, hurt: set[str], looked_at: set[str]) -> None:
        """Look at a damaged file once more when its writer should be done; then notify lead and person, once."""
        damaged = {one.id: one for one in self._team.tasks.store.damaged_tasks()}
        for id in sorted((hurt & self._hurt & damaged.keys()) - self._told_hurt, key=int):
            self._told_hurt.add(id)
            text = f"Task #{id} cannot be read: {damaged[id]}. It is left as it is; repair or remove the file."
            self._team.emit(Notice(member=OUTSIDE, text=text, level="warning"))
            await leave_note(self._team, "task-list", LEAD, text, f"#{id} is damaged")
        self._told_hurt -= looked_at - hurt
        self._hurt = (self._hurt - looked_at) | hurt
        if self._hurt - self._told_hurt and self._again is None:
            self._again = asyncio.get_running_loop().call_later(PATIENCE_S, self._look_again)

    def _look_again(self) -> None:
        self._again = None
        self.noticed({f"{id}.json" for id in self._hurt})


def _frees(after: Task | None) -> bool:
    """Whether the change may have made a task free: this one, or one that waited for it."""
    if after is None or after.status is TaskStatus.COMPLETED:
        return True
    return after.status is TaskStatus.PENDING and after.owner is None


def _taken_away(before: Task, after: Task | None) -> bool:
    if before.status is not TaskStatus.IN_PROGRESS or before.owner is None:
        return False
    return after is None or not same(after.owner, before.owner)


def _became(after: Task | None) -> str:
    if after is None:
        return "deleted it"
    if after.owner is None:
        return "gave it back to the list"
    done = " and completed it" if after.status is TaskStatus.COMPLETED else ""
    return f"gave it to {after.owner}{done}"
