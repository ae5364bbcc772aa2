from collections.abc import Generator

import pytest

from tests.teams.member_processes.started_members import Marked, nobody_left


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Generator[Marked]:
    """Whoever the test starts has its mark; after it nobody lives."""
    with nobody_left() as found:
        monkeypatch.setenv(*next(iter(found.env.items())))
        yield found
