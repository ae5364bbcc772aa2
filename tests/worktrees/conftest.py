from pathlib import Path

import pytest

from teamwright.worktrees.repository_git import RepositoryGit
from tests.support.repositories import make_repository


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A repository with one commit: the checkout of a person."""
    return make_repository(tmp_path / "shop")


@pytest.fixture
def repository(checkout) -> RepositoryGit:
    return RepositoryGit.open(checkout)


@pytest.fixture
def root(tmp_path) -> Path:
    """The directory of all worktrees in a home."""
    return tmp_path / "home" / "worktrees"
