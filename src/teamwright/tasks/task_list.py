"""The task list: what members, tools and surfaces do with tasks.

Every change is safe among processes that take the locks, and careful with strangers that do not. Below it: store,
edges, claims, rules. Sends no mail: `on_change` tells what happened, the caller decides who hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Unpack

from teamwright.protocol.ids import addressee, task_id
from teamwright.protocol.task import Task, TaskStatus
from teamwright.protocol.values import dataclass
from teamwright.tasks import claim, moves
from teamwright.tasks.check import Check, Checked, Proof, changed, failed, marked, own_check, reopened, with_check
from teamwright.tasks.drafts import Drafts, finish_draft, mark_draft, next_claim_at
from teamwright.tasks.edges import add_edges, drop_references, refuse_bad_edges
from teamwright.tasks.graph import Edge, in_order
from teamwright.tasks.index import OnOutside
from teamwright.tasks.outside import Outside
from teamwright.tasks.rules import (
    DELETED,
    RUNTIME_KEYS,
    Actor,
    NewTask,
    Wish,
    fields_changed,
    in_realm,
    kind_of_change,
    may_delete,
    not_found,
    one_line,
    require_metadata,
    same,
    wished,
)
from teamwright.tasks.store import TaskStore

OnChange = Callable[[Task, str, str], None]
"""Told after each change: the task, what happened (created claimed assigned completed released deleted updated), by
whom. Must neither block nor raise."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an update did. `changed` names the fields as on disk, or is `("deleted",)`.

    `assigned` is a new owner other than the actor. `removed_from` is the owner, other than the actor,
    that an open task was taken from; `unblocked` are the tasks that wait no longer.
    """

    task: Task
    changed: tuple[str, ...]
    assigned: str | None = None
    removed_from: str | None = None
    unblocked: tuple[Task, ...] = ()


class TaskList:
    """One shared list of tasks in one directory, which is made with the first task."""

    def __init__(
        self,
        directory: Path,
        guard_of: Callable[[Path], Path],
        *,
        on_change: OnChange | None = None,
        fsync: bool = False,
        realm: str = "",
        check: Check | None = None,
    ) -> None:
        """`check` runs the checks of tasks; without one nothing is checked.


        `realm`, on a list that several sessions share, tells their members apart: owners are `name@realm` on disk. What
        is handed out has the bare names of this realm's members, and whole ones of all others.
        """
        self.store = TaskStore(directory, guard_of, fsync=fsync)
        self._on_change = on_change
        self._realm = realm
        self._check = check
        self._drafts = Drafts(self.store)

    @property
    def directory(self) -> Path:
        """Where the files lie."""
        return self.store.directory

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────

    async def get(self, id: str) -> Task | None:
        """The task as it is on disk now. Raises InvalidName, StorageError (`damaged-file`)."""
        task = self.store.read(task_id(id))
        return task and self._shown(task)

    async def all(self, *, internal: bool = False) -> list[Task]:
        """All tasks in numeric order; strangers' book-keeping only with `internal`.

        A file that cannot be read just now shows as it was last seen. Raises StorageError.
        """
        self.store.index.list_all()
        return [self._shown(task) for task in self.store.index.known() if internal or not task.internal]

    def outside(self, on_outside: OnOutside) -> Outside:
        """Be told of what others do to the list from now on; see Outside. Raises StorageError."""

        def told(before: Task | None, after: Task | None) -> None:
            on_outside(before and self._shown(before), after and self._shown(after))

        return Outside(self.store, told)

    async def refresh(self) -> list[Task]:
        """Look at every file and return the tasks that are not as this process last saw them."""
        before = {task.id: self._shown(task) for task in self.store.index.known()}
        return [task for task in await self.all() if before.get(task.id) != task]

    def waits_for(self, task: Task) -> list[str]:
        """The ids of the open blockers, as last seen: what lists show."""
        index = self.store.index
        return in_order(i for i in task.blocked_by if i.isascii() and i.isdigit() and index.is_open(int(i)))

    async def counts(self) -> dict[str, int]:
        """How many tasks are `pending`, `in_progress`, `completed`; `blocked`: how many of the open ones wait."""
        counts = dict.fromkeys((*map(str, TaskStatus), "blocked"), 0)
        for task in await self.all():
            counts[str(task.status)] += 1
            counts["blocked"] += task.status is not TaskStatus.COMPLETED and bool(self.waits_for(task))
        return counts

    async def still_mine(self, id: str, by: str) -> bool:
        """Whether the task is open and this member's, read now: asked at the start and before completion."""
        task = self.store.read(task_id(id))
        if task is None or task.status is TaskStatus.COMPLETED:
            return False
        return same(task.owner, in_realm(by, self._realm))

    async def wait_hint(self) -> str:
        """Why nothing may be free: one line about what is open, for a status line or a model; empty when nothing is."""
        words: list[str] = []
        for task in await self.all():
            if task.status is TaskStatus.COMPLETED:
                continue
            if waiting := self.waits_for(task):
                words.append(f"#{task.id} waits for {', '.join(f'#{i}' for i in waiting)}")
            elif task.owner:
                words.append(f"#{task.id} is with {task.owner}")
            elif task.reserved_for:
                words.append(f"#{task.id} is kept for {', '.join(task.reserved_for)}")
        more = f"; {len(words) - 8} more" if len(words) > 8 else ""
        return "; ".join(words[:8]) + more

    # ── changing ─────────────────────────────────────────────────────────────────────────────────────────────

    async def create(self, subject: str, description: str, *, by: str, **more: Unpack[NewTask]) -> Task:
        """Add a task under the next number. `blocked_by` names tasks that must be completed before it.

        Raises UsageError (no subject), TaskRefused (`task_not_found`), StorageError; then nothing was added.
        """
        subject, owner = one_line(subject), more.get("owner", "").strip()
        blockers = in_order(task_id(i) for i in more.get("blocked_by", ()))
        metadata = {key: value for key, value in (more.get("metadata") or {}).items() if key not in RUNTIME_KEYS}
        self._allow(metadata, more.get("seen_from"))

        def made(id: str) -> Task:
            task = Task(
                id=id,
                subject=subject,
                description=description,
                active_form=more.get("active_form") or None,
                owner=in_realm(addressee(owner, None), self._realm) if owner else None,
                blocked_by=tuple(blockers),
                metadata=metadata or None,
            )
            return mark_draft(task, in_realm(by, self._realm)) if more.get("draft") else task

        self.store.prepare()
        async with self.store.list_lock().hold() as held:
            for id in blockers:
                if self.store.read(id) is None:
                    raise not_found(id)
            task = self.store.make(made, held)
            await add_edges(self.store, [(blocker, task.id) for blocker in blockers], held)
        self._tell(task, "created", by)
        return task

    async def update(self, id: str, *, by: str, lead: bool = False, **wish: Unpack[Wish]) -> Change:
        """Change a task; see Wish for what can be asked. All of it happens, or nothing does.

        A member that names itself as owner, or starts what nobody has, claims the task. Raises TaskRefused
        (`task_not_found already_claimed already_resolved blocked reserved cycle self_edge check_failed check_kept
        changed`), UsageError, InvalidName, StorageError. A completion waits for the task's check, without any lock.
        """
        number, actor = task_id(id), Actor(in_realm(by, self._realm), lead)
        if wish.get("status") == DELETED:
            return await self._delete(number, actor)
        self._allow(wish.get("metadata"), wish.get("seen_from"))
        proof = await self._proved(number, wish, actor) if wish.get("status") == TaskStatus.COMPLETED else None
        edges = _edges(number, wish)
        await self._drafts.renew(actor.name, number)
        if not edges:
            before, after = await self._rewrite(number, wish, actor, proof)
            return await self._told(before, after, actor)
        async with self.store.list_lock().hold() as held:
            refuse_bad_edges(self.store, edges)
            before, after = await self._rewrite(number, wish, actor, proof)
            touched = await add_edges(self.store, edges, held)
        for other in touched.values():
            if other.id != number:
                self._tell(other, "updated", actor.name)
        return await self._told(before, touched.get(number, after), actor)

    async def claim(self, id: str, by: str, tools: frozenset[str] | None = None) -> Task:
        """Take this task and start it; taking one's own again succeeds. `tools` are those the claimer can use.

        Raises TaskRefused (`task_not_found already_claimed already_resolved blocked reserved`), StorageError.
        """
        by = in_realm(by, self._realm)
        return self._claimed(await claim.claim(self.store, task_id(id), Actor(by, tools=tools)), by)

    async def claim_next(self, by: str, tools: frozenset[str] | None = None, settle_ms: int = 0) -> Task | None:
        """Take and start the lowest task that is free, not blocked, no draft, and meant for this member; else None.

        `settle_ms` is how long a file must not have changed, for a list whose lead is another program.
        """
        by = in_realm(by, self._realm)
        taken = await claim.claim_next(self.store, Actor(by, tools=tools), settle_ms)
        return None if taken is None else self._claimed(taken, by)

    def next_claim_at(self, settle_ms: int = 0) -> int:
        """When a task that only waits for its creator becomes claimable, in ms since 1970; 0 when there is none."""
        return next_claim_at(self.store.index, settle_ms)

    async def finish_drafts(self, by: str) -> None:
        """Let idle members claim what this creator added: its turn has ended."""
        for task in await self._drafts.finish(in_realm(by, self._realm)):
            self._tell(task, "updated", by)

    async def release(self, owner: str, *, by: str = "system") -> list[Task]:
        """Hand the open tasks of a member that is gone back to the list: pending, without owner. Returns them."""
        back = [after for _, after in await claim.release(self.store, in_realm(owner, self._realm))]
        for task in back:
            self._tell(task, "released", by)
        return back

    async def verify(self, task: Task, check: str, *, keeps_owner: bool) -> Checked | None:
        """Check a completion that another program made: one that fails is taken back, one that passes is noted.

        `check` is the check that the task had before, if that program took it away. None: nothing is to be checked, or
        the task is another by now. Raises LockTimeout, StorageError.
        """
        if self._check is None:
            return None
        measured = with_check(task, check)
        commands = self._check.commands(measured)
        if not commands or task.passed(*commands):
            return None
        checked = await self._check.run(measured, commands, task.owner or "")
        if not checked.ran:
            return checked

        def change(now: Task) -> Task:
            if now.status is not TaskStatus.COMPLETED or self._shown(now).owner != task.owner:
                return now
            return marked(now, commands) if checked.passed else reopened(now, measured.check, keeps_owner=keeps_owner)

        before, after = await self.store.rewrite(task.id, change)
        if after == before:
            return None
        self._tell(after, "updated" if checked.passed or keeps_owner else "released", "task-list")
        return checked

    def unverified(self, task: Task) -> bool:
        """Whether the task is completed and has a check, its own or that of all tasks, that nobody of ours saw pass."""
        if task.status is not TaskStatus.COMPLETED:
            return False
        commands = self._check.commands(task) if self._check is not None else ()
        return task.unverified or not task.passed(*commands)

    # ── moving ───────────────────────────────────────────────────────────────────────────────────────────────

    async def reset_into_archive(self, target: Path) -> int:
        """Move all tasks into `target`; numbers go on where they were. Returns how many were moved."""
        return await moves.set_aside(self.store, target)

    async def remove_into_archive(self, target: Path) -> int:
        """Move all tasks into `target` and remove the directory; a new list of the name begins at 1."""
        return await moves.move_away(self.store, target)

    async def take_over(self, other: TaskList) -> list[Task]:
        """Move the open tasks of another list here under their numbers. Returns them."""
        return await moves.take_over(self.store, other.store)

    # ── inside ───────────────────────────────────────────────────────────────────────────────────────────────

    async def _rewrite(self, id: str, wish: Wish, actor: Actor, proof: Proof | None) -> tuple[Task, Task]:
        def change(task: Task) -> Task:
            after = self._wished(task, wish, actor)
            after = finish_draft(after) if wish.get("ready") else self._drafts.renewed(after, actor.name)
            completes = task.status is not TaskStatus.COMPLETED and after.status is TaskStatus.COMPLETED
            if self._check is None or not completes:
                return after
            commands = self._check.commands(after)
            if proof is not None:
                return proof.completed(task, after, commands)
            if commands:
                raise changed(task)
            return after

        return await self.store.rewrite(id, change)

    def _wished(self, task: Task, wish: Wish, actor: Actor) -> Task:
        more = [task_id(i) for i in wish.get("add_blocked_by", ())]
        return wished(task, wish, actor, lambda: self.store.open_blockers(task, more))

    def _allow(self, metadata: Mapping[str, Any] | None, seen_from: Path | None) -> None:
        """Set a check; the caller is a Teamwright agent that may run it. Raises UsageError."""
        require_metadata(metadata)
        if self._check is not None and (command := own_check(metadata)):
            self._check.allow(command, seen_from)

    async def _proved(self, id: str, wish: Wish, actor: Actor) -> Proof | None:
        """What the task's checks say, for whoever may complete it; None when there are none. Raises TaskRefused."""
        task = self.store.read(id) if self._check is not None else None
        if self._check is None or task is None or task.status is TaskStatus.COMPLETED:
            return None
        after = self._wished(task, wish, actor)
        commands = self._check.commands(after)
        if not commands:
            return None
        checked = await self._check.run(self._shown(after), commands, self._own(actor.name))
        if checked.ran and not checked.passed:
            raise failed(task, checked)
        return Proof(task, commands, checked)

    async def _told(self, before: Task, after: Task, actor: Actor) -> Change:
        changed = fields_changed(before, after)
        if not changed:
            return Change(self._shown(after), ())
        kind = kind_of_change(before, after, actor.name)
        self._tell(after, kind, actor.name)
        new_owner = after.owner if after.owner != before.owner else None
        assigned = None if new_owner is None or same(new_owner, actor.name) else self._own(new_owner)
        taken = after.owner != before.owner and before.status is not TaskStatus.COMPLETED
        removed_from = self._other_owner(before, actor) if taken else None
        unblocked = self._unblocked(after) if kind == "completed" else ()
        return Change(self._shown(after), changed, assigned, removed_from, unblocked)

    def _other_owner(self, task: Task, actor: Actor) -> str | None:
        """The task's owner, unless that is the actor or nobody."""
        return None if task.owner is None or same(task.owner, actor.name) else self._own(task.owner)

    async def _delete(self, id: str, actor: Actor) -> Change:
        if not self.store.path(id).exists():
            raise not_found(id)  # there may be no list at all, and nothing to lock
        async with self.store.list_lock().hold() as held:
            dependents = self.store.index.dependents(int(id))
            gone = await self.store.remove(id, lambda task: may_delete(task, actor), held)
            touched = await drop_references(self.store, gone, held)
        self._tell(gone, "deleted", actor.name)
        for other in touched.values():
            self._tell(other, "updated", actor.name)
        was_open = gone.status is not TaskStatus.COMPLETED
        waited = gone.with_(blocks=(*gone.blocks, *map(str, dependents)))
        removed_from = self._other_owner(gone, actor) if was_open else None
        return Change(self._shown(gone), (DELETED,), None, removed_from, self._unblocked(waited) if was_open else ())

    def _unblocked(self, task: Task) -> tuple[Task, ...]:
        ids = in_order((*task.blocks, *map(str, self.store.index.dependents(task.number))))
        near = [self.store.index.look(int(i)) for i in ids if i.isascii() and i.isdigit()]
        pending = [t for t in near if t and t.status is TaskStatus.PENDING and not t.internal]
        return tuple(t for t in pending if not (self.waits_for(t) and self.store.open_blockers(t)))

    def _claimed(self, taken: tuple[Task, Task], by: str) -> Task:
        before, after = taken
        if after != before:
            self._tell(after, "claimed", by)
        return self._shown(after)

    def _shown(self, task: Task) -> Task:
        """The task with its owner as this session calls it."""
        if not self._realm or task.owner is None:
            return task
        own = self._own(task.owner)
        return task if own == task.owner else task.with_(owner=own)

    def _own(self, name: str) -> str:
        bare, _, realm = name.partition("@")
        return bare if realm and realm == self._realm else name

    def _tell(self, task: Task, change: str, by: str) -> None:
        if self._on_change is not None:
            self._on_change(self._shown(task), change, self._own(by))


def _edges(id: str, wish: Wish) -> list[Edge]:
    after = [(id, task_id(i)) for i in wish.get("add_blocks", ())]
    before = [(task_id(i), id) for i in wish.get("add_blocked_by", ())]
    return [*before, *after]
