"""A team space of its own for each test that asks for one."""

import pytest

from tests.database.spaces import make_space


@pytest.fixture
async def space(postgres) -> str:
    return await make_space(postgres.new_space())
