"""The task graph against a model of it in memory: views of our own, some killed, a stranger without locks, damage."""

import asyncio
import json

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from teamwright.protocol.errors import TaskRefused
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList
from tests.support.examples import examples
from tests.support.mortal_machine import MortalMachine
from tests.support.waits import WAIT_S

NAMES = ("ann", "bob", "team-lead")
names = st.sampled_from(NAMES)
members = st.sampled_from(NAMES[:2])
picks = st.integers(0, 30)
views = st.integers(0, 1)


pytestmark = pytest.mark.usefixtures("mortal")


class Graph(MortalMachine):
    """`model` is id → status, owner, blockers; edges are kept once, by the blocked task."""

    def __init__(self):
        super().__init__()
        self.views = [TaskList(FileTaskStore(self.home.tasks("demo"), self.home.guard)) for _ in range(2)]
        self.directory = self.views[0].store.directory
        self.model = {}
        self.highest = 0
        self.torn = 0
        self.killed = set()

    # ── the model ────────────────────────────────────────────────────────────────────────────────────────────

    def pick(self, number):
        return list(self.model)[number % len(self.model)] if self.model else None

    def open_blockers(self, id):
        return [b for b in self.model[id]["by"] if self.model[b]["status"] != "completed"]

    def reaches(self, start, goal):
        seen, todo = set(), [start]
        while todo:
            here = todo.pop()
            if here == goal:
                return True
            if here not in seen:
                seen.add(here)
                todo += [t for t, task in self.model.items() if here in task["by"]]
        return False

    def run(self, call):
        """The call's result, or the code of its refusal."""
        try:
            return self.runner.run(asyncio.wait_for(call, WAIT_S))
        except TaskRefused as refused:
            return refused.code

    # ── what happens ─────────────────────────────────────────────────────────────────────────────────────────

    @initialize(count=st.integers(2, 6))
    def begin(self, count):
        for _ in range(count):
            self.create(0, None)

    @rule(view=views, after=st.none() | picks)
    def create(self, view, after):
        blockers = [self.pick(after)] if after is not None and self.model else []
        task = self.run(self.views[view].create("t", "d", by="ann", blocked_by=blockers))
        assert int(task.id) > self.highest
        self.highest = int(task.id)
        self.model[task.id] = {"status": "pending", "owner": None, "by": set(blockers)}

    @rule(view=views, by=members, looked=st.booleans())
    def claim_next(self, view, by, looked):
        """What is free is found however stale the view is; one that has just looked takes the lowest."""
        if looked:
            self.run(self.views[view].all())
        free = [
            i
            for i, t in self.model.items()
            if t["status"] == "pending" and t["owner"] is None and not self.open_blockers(i)
        ]
        got = self.run(self.views[view].claim_next(by))
        if not free:
            assert got is None
            return
        assert got.id in free
        # Who died may have left a lock that nobody can tell from a stranger's yet: such a task is passed over.
        lowest = min(free, key=int)
        assert not looked or got.id == lowest or lowest in self.killed
        self.model[got.id].update(owner=by, status="in_progress")

    @rule(view=views, pick=picks, by=names, status=st.sampled_from(("pending", "in_progress", "completed")))
    def set_status(self, view, pick, by, status):
        if id := self.pick(pick):
            task, lead = self.model[id], by == "team-lead"
            got = self.run(self.views[view].update(id, by=by, lead=lead, status=status))
            anothers = task["owner"] not in {None, by} and not lead
            completes = status == "completed" != task["status"]
            takes = task["owner"] is None and not lead and (status == "in_progress" or completes)
            moves_on = status != "pending" and status != task["status"]
            works = status != task["status"] or status == "in_progress"
            if anothers and works and task["status"] != "completed":
                assert got == "already_claimed"
            elif task["status"] == "completed" and ((anothers and status != "pending") or takes):
                assert got == "already_resolved"
            elif (moves_on or takes) and self.open_blockers(id):
                assert got == "blocked"
            else:
                task.update(status=status, owner=by if takes else task["owner"])
                assert (got.task.status, got.task.owner) == (task["status"], task["owner"])

    @rule(view=views, pick=picks, owner=st.sampled_from(("ann", "bob", "")))
    def reassign(self, view, pick, owner):
        if id := self.pick(pick):
            task = self.model[id]
            got = self.run(self.views[view].update(id, by="team-lead", lead=True, owner=owner))
            assert got.assigned == (owner if owner and owner != task["owner"] else None)
            if not owner and task["status"] == "in_progress":
                task["status"] = "pending"
            task["owner"] = owner or None

    @rule(view=views, one=picks, two=picks, forward=st.booleans())
    def add_edge(self, view, one, two, forward):
        if self.model:
            blocker, blocked = self.pick(one), self.pick(two)
            call = (
                self.views[view].update(blocker, by="ann", add_blocks=[blocked])
                if forward
                else self.views[view].update(blocked, by="ann", add_blocked_by=[blocker])
            )
            got = self.run(call)
            if blocker == blocked:
                assert got == "self_edge"
            elif self.reaches(blocked, blocker):
                assert got == "cycle"
            else:
                assert not isinstance(got, str)
                self.model[blocked]["by"].add(blocker)

    @rule(view=views, pick=picks)
    def delete(self, view, pick):
        if id := self.pick(pick):
            freed = {
                t
                for t, task in self.model.items()
                if self.model[id]["status"] != "completed"
                and self.open_blockers(t) == [id]
                and task["status"] == "pending"
            }
            got = self.run(self.views[view].update(id, by="team-lead", lead=True, status="deleted"))
            assert {t.id for t in got.unblocked} == freed
            del self.model[id]
            for task in self.model.values():
                task["by"].discard(id)

    @rule(view=views, owner=members)
    def release(self, view, owner):
        held = [i for i, t in self.model.items() if t["owner"] == owner and t["status"] != "completed"]
        got = self.run(self.views[view].release(owner))
        assert {t.id for t in got} == set(held)
        for id in held:
            self.model[id].update(owner=None, status="pending")

    @rule(
        pick=picks,
        owner=st.sampled_from(("zed", None)),
        status=st.sampled_from(("in_progress", "completed", "pending")),
    )
    def stranger_overwrites(self, pick, owner, status):
        if id := self.pick(pick):
            file = self.directory / f"{id}.json"
            data = json.loads(file.read_bytes())
            data |= {"status": status, "theirs": 1}
            data.pop("owner", None)
            file.write_text(json.dumps(data | ({"owner": owner} if owner else {})))
            self.model[id].update(owner=owner, status=status)

    @rule()
    def stranger_creates(self):
        self.highest += 1
        id = str(self.highest)
        data = {"id": id, "subject": "s", "description": "", "status": "pending", "blocks": [], "blockedBy": []}
        (self.directory / f"{id}.json").write_text(json.dumps(data))
        self.model[id] = {"status": "pending", "owner": None, "by": set()}

    @rule(at=st.integers(0, 14), torn=st.booleans())
    def one_of_ours_is_killed_while_it_creates(self, at, torn):
        answer = self.mortal.life("create", at=at, torn=torn)
        id = str(self.highest + 1)
        assert answer.get("done", id) == id
        if (self.directory / f"{id}.json").exists():
            self.highest += 1
            self.model[id] = {"status": "pending", "owner": None, "by": set()}

    @rule(pick=picks, at=st.integers(0, 12), torn=st.booleans(), to=st.sampled_from(("completed", "pending", "owner")))
    def one_of_ours_is_killed_while_it_changes_one(self, pick, at, torn, to):
        """The file is the old one or the new one."""
        if id := self.pick(pick):
            wish = {"owner": "bob"} if to == "owner" else {"status": to}
            answer = self.mortal.life("update", at=at, torn=torn, id=id, **wish)
            self.killed.add(id)
            data = json.loads((self.directory / f"{id}.json").read_bytes())
            task = self.model[id]
            after = task | wish
            assert (data["status"], data.get("owner")) in [(t["status"], t["owner"]) for t in (task, after)]
            assert "done" not in answer or (data["status"], data.get("owner")) == (after["status"], after["owner"])
            task.update(status=data["status"], owner=data.get("owner"))

    @rule(how=st.sampled_from(("lost", b"", b"garbage", b"1")))
    def the_watermark_is_lost_or_damaged(self, how):
        file = self.directory / ".highwatermark"
        if how == "lost":
            file.unlink(missing_ok=True)
        else:
            file.write_bytes(how)

    @rule(view=views, pick=picks, cut=st.floats(0, 0.99))
    def a_stranger_dies_writing_and_the_next_change_of_ours_puts_it_back(self, view, pick, cut):
        if id := self.pick(pick):
            self.run(self.views[view].get(id))
            file = self.directory / f"{id}.json"
            whole = file.read_bytes()
            file.write_bytes(whole[: int(len(whole) * cut)])
            self.torn += 1
            got = self.run(self.views[view].update(id, by="team-lead", lead=True, description=f"mended {self.torn}"))
            assert got.task.description == f"mended {self.torn}"

    # ── what always holds ────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def disk_is_as_the_model(self):
        disk = {f.stem: json.loads(f.read_bytes()) for f in self.directory.glob("*.json")}
        assert {i: (d["status"], d.get("owner"), set(d["blockedBy"])) for i, d in disk.items()} == {
            i: (t["status"], t["owner"], t["by"]) for i, t in self.model.items()
        }
        assert {(i, b) for i, d in disk.items() for b in d["blocks"]} == {
            (b, i) for i, t in self.model.items() for b in t["by"]
        }

    @invariant()
    def what_was_damaged_is_kept(self):
        if self.directory.exists():
            assert len(list(self.directory.glob("*.bad.*"))) == self.torn


Graph.TestCase.settings = settings(
    max_examples=examples(50),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=[Phase.generate, Phase.shrink],
)
TestGraph = pytest.mark.promise("B3", "B5", "B6", "F13", "F14", "F16", "F17", "F18", "P2", "P5")(Graph.TestCase)
