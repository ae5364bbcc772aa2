"""Two mechanisms of one session at once: the real program, and a server on which each agent has a part."""

from collections.abc import Callable, Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.repositories import git
from tests.teams.member_processes.started_members import nobody_left
from tests.ui import conftest as ui
from tests.ui.member_processes.house import DETACHED, House, house
from tests.ui.program import Program
from tests.ui.subagents.play import Part, Play

repo_of_ui = ui.repo
unconfined = ui.unconfined

Opened = Callable[..., tuple[Program, Play]]


@pytest.fixture
def repo(repo_of_ui: Path) -> Path:
    """A repository with one commit, whose commits have an author."""
    git(repo_of_ui, "config", "user.name", "Ann")
    git(repo_of_ui, "config", "user.email", "ann@example.org")
    return repo_of_ui


@pytest.fixture
def opened(repo: Path, own_home: Path) -> Generator[Opened]:
    """Open the program in the repository with the parts of its agents: `opened([…], ada=[…])`."""
    with ExitStack() as stack:

        def open_play(lead: list[Part], **parts: list[Part]) -> tuple[Program, Play]:
            play = Play(lead, **parts)
            return stack.enter_context(play.on(repo, own_home / ".teamwright")), play

        yield open_play


@pytest.fixture
def detached(repo: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[..., House]]:
    """Open the program with members in processes of their own: `detached([…], ada=[…])`."""
    with ExitStack() as stack:
        found = stack.enter_context(nobody_left())
        monkeypatch.setenv(*next(iter(found.env.items())))
        home = own_home / ".teamwright"

        def open_house(lead: list[Part], **parts: list[Part]) -> House:
            return stack.enter_context(house(repo, home, DETACHED, found, lead, **parts))

        yield open_house
