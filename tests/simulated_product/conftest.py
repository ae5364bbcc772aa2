"""Stand-ins of both formats on a state root of the test's own."""

from pathlib import Path

import pytest

from tests.simulated_product.disk import FORMATS, NEWER, OLDER
from tests.simulated_product.running import Strangers


def started(tmp_path: Path, format_: str, patience_s: float | None):
    root = tmp_path / ".claude"
    root.mkdir()
    made = Strangers(root, tmp_path, format_, patience_s)
    yield made
    made.end()


@pytest.fixture
def patience_s():
    """Here each format waits for a lock as it does."""


@pytest.fixture(params=FORMATS)
def strangers(request, tmp_path, patience_s):
    """Both formats, one after the other."""
    yield from started(tmp_path, request.param, patience_s)


@pytest.fixture
def older(tmp_path, patience_s):
    yield from started(tmp_path, OLDER, patience_s)


@pytest.fixture
def newer(tmp_path, patience_s):
    yield from started(tmp_path, NEWER, patience_s)
