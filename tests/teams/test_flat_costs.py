"""What a spawn, an end and a look cost does not grow with the team."""

import os
from collections import Counter

import pytest

from teamwright.protocol import members as entries
from teamwright.team_records import roster, team_state
from teamwright.team_records.spawn_spec import SpawnSpec
from teamwright.teams.spawn import spawn
from teamwright.teams.teammate import Teammates
from tests.scale.crew import Plays, a_team


class Work:
    """Counts what is parsed and encoded."""

    def __init__(self, monkeypatch):
        self.done = Counter()
        for owner, name in (
            (roster, "parse_config"),
            (team_state, "parse_team_file"),
            (entries.RosterMember, "to_json"),
            (team_state.Incarnation, "as_json"),
        ):
            monkeypatch.setattr(owner, name, self._counted(name, getattr(owner, name)))

    def _counted(self, name, function):
        def counted(*args):
            self.done[name] += 1
            return function(*args)

        return counted

    def take(self):
        done, self.done = self.done, Counter()
        return done


async def come(session, number):
    teammate = await spawn(session.team, SpawnSpec("Look.", name=f"m{number}"))
    while teammate.turns < 1 or not teammate.is_resting:
        session.team.changed.clear()
        await session.team.changed.wait()


@pytest.mark.finding("T17")
@pytest.mark.slow
async def test_a_spawn_into_a_team_of_forty_parses_and_encodes_no_more_than_one_into_a_team_of_five(
    tmp_path, monkeypatch
):
    work = Work(monkeypatch)
    async with a_team(tmp_path, Plays(lambda _text, _request: "ok")) as team:
        session = team.session
        for number in range(5):
            await come(session, number)
        work.take()
        for number in range(5, 10):
            await come(session, number)
        small = work.take()
        for number in range(10, 40):
            await come(session, number)
        work.take()
        for number in range(40, 45):
            await come(session, number)
        large = work.take()
    assert not large["parse_config"] and not large["parse_team_file"], "nobody else wrote"
    assert large == small
    assert large["to_json"] <= 2 * 5 and large["as_json"] <= 2 * 5


@pytest.mark.finding("T17")
def test_a_member_is_found_in_any_case_and_a_name_that_went_is_not():
    members = Teammates()
    members["Ada"], members["bob"] = "first", "second"
    members["ada"] = "third"
    assert (members.find_any_case("ADA"), members.find_any_case("Bob")) == ("third", "second")
    del members["Ada"]
    assert members.find_any_case("Ada") == "third"
    members.clear()
    assert members.find_any_case("ada") is None


class Files(Counter):
    """Bytes read and files opened."""

    def __init__(self, monkeypatch):
        super().__init__()
        for name in ("read", "pread"):
            monkeypatch.setattr(os, name, self._reading(getattr(os, name)))
        opened = os.open
        monkeypatch.setattr(os, "open", lambda *args, **more: self.update(opened=1) or opened(*args, **more))

    def _reading(self, function):
        def read(*args):
            got = function(*args)
            self["read"] += len(got)
            return got

        return read

    def take(self):
        done = Counter(self)
        self.clear()
        return done


@pytest.mark.slow
@pytest.mark.finding("T17")
async def test_a_spawn_into_a_team_of_two_hundred_reads_and_encodes_what_one_into_a_team_of_fifty_does(
    tmp_path, monkeypatch
):
    work, files = Work(monkeypatch), Files(monkeypatch)
    async with a_team(tmp_path, Plays(lambda _text, _request: "ok")) as team:
        costs = []
        for number in range(200):
            if number in {50, 195}:
                work.take()
                files.take()
            await come(team.session, number)
            if number in {54, 199}:
                costs.append((work.take(), files.take()))
    (work_then, files_then), (work_now, files_now) = costs
    assert work_now == work_then
    assert files_now["opened"] <= 1.2 * files_then["opened"]
    assert files_now["read"] <= 1.5 * files_then["read"] + 20_000
