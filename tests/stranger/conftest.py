"""Stand-ins of both formats on a state root of the test's own."""

from pathlib import Path

import pytest

from tests.stranger.disk import FORMATS, NEWER, OLDER
from tests.stranger.running import Strangers


def started(tmp_path: Path, format_: str):
    root = tmp_path / ".claude"
    root.mkdir()
    made = Strangers(root, tmp_path, format_)
    yield made
    made.end()


@pytest.fixture(params=FORMATS)
def strangers(request, tmp_path):
    """Both formats, one after the other."""
    yield from started(tmp_path, request.param)


@pytest.fixture
def older(tmp_path):
    yield from started(tmp_path, OLDER)


@pytest.fixture
def newer(tmp_path):
    yield from started(tmp_path, NEWER)
