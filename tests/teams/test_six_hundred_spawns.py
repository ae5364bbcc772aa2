"""A team that grows to 600: what one more spawn reads, parses and encodes is what it was at fifty."""

import os
from collections import Counter

import pytest

from tests.scale.crew import Plays, a_team
from tests.teams.test_flat_costs import Work, come

FIVE = 5


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
async def test_a_spawn_into_a_team_of_six_hundred_reads_and_encodes_what_one_into_a_team_of_fifty_does(
    tmp_path, monkeypatch
):
    work, files = Work(monkeypatch), Files(monkeypatch)
    async with a_team(tmp_path, Plays(lambda _text, _request: "ok")) as team:
        costs = []
        for number in range(600):
            if number in {50, 595}:
                work.take()
                files.take()
            await come(team.session, number)
            if number in {50 + FIVE - 1, 595 + FIVE - 1}:
                costs.append((work.take(), files.take()))
    (work_then, files_then), (work_now, files_now) = costs
    assert work_now == work_then
    assert files_now["opened"] <= 1.2 * files_then["opened"]
    assert files_now["read"] <= 1.5 * files_then["read"] + 20_000
