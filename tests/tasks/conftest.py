"""A home, and as many views of one task list as a test wants: each like a process of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from teamwright.storage.paths import Home
from teamwright.tasks.file_task_store import FileTaskStore
from teamwright.tasks.task_list import TaskList


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home.at(tmp_path / "home")


@pytest.fixture
def told() -> list[tuple[str, str, str]]:
    """What `on_change` was told: id, change, by."""
    return []


@pytest.fixture
def view(home: Home, told: list[tuple[str, str, str]]) -> Callable[[], TaskList]:
    """Another view of the list `demo`; all of them tell `told`."""

    def made(directory: str = "demo") -> TaskList:
        return TaskList(
            FileTaskStore(home.tasks(directory), home.guard),
            on_change=lambda task, change, by: told.append((task.id, change, by)),
        )

    return made


@pytest.fixture
def tasks(view: Callable[[], TaskList]) -> TaskList:
    return view()
