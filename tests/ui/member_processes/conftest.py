from collections.abc import Callable, Generator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tests.support.programs import require
from tests.teams.member_processes.started_members import Marked, nobody_left
from tests.ui.member_processes.house import BACKENDS, TMUX, House, house


@pytest.fixture
def marked(monkeypatch: pytest.MonkeyPatch) -> Generator[Marked]:
    """Whoever the test starts has its mark; after it nobody lives."""
    with nobody_left() as found:
        monkeypatch.setenv(*next(iter(found.env.items())))
        yield found


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Where the members of the scene live."""
    if request.param == TMUX:
        require("tmux")
    return request.param


@pytest.fixture
def scene(repo: Path, own_home: Path, backend: str, marked: Marked) -> Generator[Callable[..., House]]:
    """Opens the house: `scene(lead, ann=…)`."""
    with ExitStack() as stack:
        opened = partial(house, repo, own_home / ".teamwright", backend, marked)
        yield lambda lead, **parts: stack.enter_context(opened(lead, **parts))
