"""The roster against a list in memory: joins and ends by several handles, kills, and strangers that clobber it."""

import asyncio
import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from teamwright.protocol.errors import TeamRefused, UnknownMember
from teamwright.protocol.ids import COLORS
from teamwright.protocol.members import RosterMember, TeamConfig, parse_member
from teamwright.team_records.roster import Roster, RosterFile
from tests.support.examples import examples
from tests.support.mortal_machine import MortalMachine

NAMES = ("ann", "Bob", "cyd", "dee-2", "eve")
names = st.sampled_from(NAMES)
handles = st.integers(0, 1)


pytestmark = pytest.mark.usefixtures("mortal")


class TheRoster(MortalMachine):
    """`model` is name → what is noted of the member, in the order of joining; `theirs` are strangers' keys."""

    def __init__(self):
        super().__init__()
        self.handles = [Roster(RosterFile(self.home, "demo")) for _ in range(2)]
        self.path = self.handles[0].document.path
        lead = RosterMember("team-lead@demo", "team-lead", joined_at=1)
        assert self.handles[0].document.create(TeamConfig("demo", lead.agent_id, "s", 1, None, (lead,)))
        self.model = {}
        self.theirs = {}
        self.seen = []

    def on_disk(self):
        return json.loads(self.path.read_bytes())

    def next_color(self):
        last = next((m["color"] for m in reversed(self.model.values()) if m["color"] in COLORS), None)
        return COLORS[0] if last is None else COLORS[(COLORS.index(last) + 1) % len(COLORS)]

    # ── what happens ─────────────────────────────────────────────────────────────────────────────────────────

    @rule(handle=handles, name=names, dead=st.booleans(), dedupe=st.booleans())
    def join(self, handle, name, dead, dedupe):
        there = name in self.model
        call = self.handles[handle].join(
            RosterMember("", name, model="new"), is_alive=lambda _: not dead, dedupe=dedupe
        )
        if there and not dead and not dedupe:
            with pytest.raises(TeamRefused):
                self.runner.run(call)
            return
        joined = self.runner.run(call)
        if there and dead:
            assert (joined.name, joined.color) == (name, self.model[name]["color"])
            self.model[name] = {"color": joined.color, "model": "new"}
            return
        assert joined.color == self.next_color()
        assert (joined.name == name) != there and joined.name not in self.model
        self.model[joined.name] = {"color": joined.color, "model": "new"}

    @rule(handle=handles, name=names)
    def leave(self, handle, name):
        gone = self.runner.run(self.handles[handle].remove(name.upper()))
        assert (gone is not None) == (name in self.model)
        self.model.pop(name, None)

    @rule(handle=handles, name=names, active=st.booleans())
    def note(self, handle, name, active):
        call = self.handles[handle].set_active(name, active)
        if name in self.model:
            self.runner.run(call)
            self.model[name]["isActive"] = active
        else:
            with pytest.raises(UnknownMember):
                self.runner.run(call)

    @rule(count=st.integers(2, 8), fails=st.integers(0, 255))
    def many_start_at_once_and_some_fail(self, count, fails):
        """K starts of which J fail: K − J stay, none twice."""
        failing = [n for n in range(count) if fails >> n & 1]

        async def start(n):
            joined = await self.handles[n % 2].join(
                RosterMember("", f"many-{n}", model="new"), is_alive=lambda _: False
            )
            if n in failing:
                await self.handles[(n + 1) % 2].remove(joined.name)

        async def together():
            await asyncio.gather(*(start(n) for n in range(count)))

        self.runner.run(together())
        there = {m["name"]: m for m in self.on_disk()["members"]}
        for n in range(count):
            assert (f"many-{n}" in there) == (n not in failing)
        others = {name: noted for name, noted in self.model.items() if name in there}
        more = [name for name in there if name.startswith("many-")]
        self.model = others | {n: {"color": there[n]["color"], "model": "new"} for n in more}

    @rule(name=names, at=st.integers(0, 12), torn=st.booleans())
    def one_of_ours_is_killed_while_it_joins(self, name, at, torn):
        color = self.next_color()
        answer = self.mortal.life("join", at=at, torn=torn, name=name)
        if name not in self.model and name in {m["name"] for m in self.on_disk()["members"]}:
            self.model[name] = {"color": color}
        assert "died" in answer or name in self.model

    @rule(name=names, at=st.integers(0, 12), torn=st.booleans())
    def one_of_ours_is_killed_while_it_takes_one_out(self, name, at, torn):
        answer = self.mortal.life("leave", at=at, torn=torn, name=name)
        if name not in {m["name"] for m in self.on_disk()["members"]}:
            self.model.pop(name, None)
        assert "died" in answer or name not in self.model

    @rule()
    def a_stranger_reads(self):
        self.seen = [*self.model]

    @rule(number=st.integers(0, 9), back=st.booleans(), indent=st.sampled_from([None, 2]))
    def a_stranger_writes_what_it_read_long_ago(self, number, back, indent):
        """Without a lock, in place, with a key of its own: who joined since is gone until somebody puts them back."""
        clobbered = [m for m in self.on_disk()["members"] if m["name"] not in [*self.seen, "team-lead"]]
        data = self.on_disk()
        data["members"] = [m for m in data["members"] if m not in clobbered]
        self.theirs = {"leadProcess": {"pid": number}}
        self.path.write_text(json.dumps(data | self.theirs, indent=indent))
        there = self.runner.run(self.handles[0].read())
        for entry in clobbered:
            assert there.find(entry["name"]) is None
            noted = self.model.pop(entry["name"])
            if back:
                self.runner.run(self.handles[1].add(parse_member(entry)))
                self.model[entry["name"]] = noted

    # ── what always holds ────────────────────────────────────────────────────────────────────────────────────

    @invariant()
    def disk_and_handles_are_as_the_model(self):
        data = self.on_disk()
        lead, *members = data["members"]
        assert lead["name"] == "team-lead"
        assert [m["name"] for m in members] == list(self.model)
        for entry in members:
            noted = self.model[entry["name"]]
            assert {key: entry[key] for key in ("color", "model", "isActive") if key in entry} == noted
        assert {key: data[key] for key in data if key == "leadProcess"} == self.theirs
        for handle in self.handles:
            assert [m.name for m in self.runner.run(handle.read()).teammates] == list(self.model)


TheRoster.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=20, deadline=None)
TestTheRoster = pytest.mark.promise("F04", "F15", "F26", "A3", "A4")(TheRoster.TestCase)
