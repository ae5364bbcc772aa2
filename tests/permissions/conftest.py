import pytest

from tests.permissions.scratch import ScratchRepository


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return ScratchRepository(tmp_path_factory.mktemp("scratch"))


@pytest.fixture
def own_scratch(tmp_path):
    """For tests that change the repository."""
    return ScratchRepository(tmp_path)
