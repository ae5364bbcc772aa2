import pytest

from tests.teams.places.rig import private_server
from tests.teams.places.rig import programs as reporting


@pytest.fixture
def rig():
    with private_server() as started:
        yield started


@pytest.fixture
async def programs():
    async with reporting() as started:
        yield started
