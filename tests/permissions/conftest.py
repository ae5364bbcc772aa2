import importlib.util
import sys
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("permissions_ground", Path(__file__).parent / "ground.py")
_module = importlib.util.module_from_spec(_spec)
sys.modules["permissions_ground"] = _module
_spec.loader.exec_module(_module)


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    return _module.Ground(tmp_path_factory.mktemp("ground"))


@pytest.fixture
def own_ground(tmp_path):
    """For tests that change the repository."""
    return _module.Ground(tmp_path)
