import subprocess

import pytest

from tests.teams.backends.rig import private_server
from tests.teams.backends.rig import programs as reporting


@pytest.fixture
def rig():
    with private_server() as started:
        yield started


@pytest.fixture
async def programs():
    async with reporting() as started:
        yield started


@pytest.fixture
def stranger():
    """A process of somebody else, in a session of its own."""
    other = subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True)
    yield other
    other.kill()
    other.wait()
