import pytest

from tests.parity.house import BACKENDS


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    """Where the members of the scene live."""
    return request.param
