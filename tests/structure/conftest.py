"""The tests of the structure keep the syntax trees of all modules, which Python would search again and again."""

import gc

import pytest


@pytest.fixture(scope="package", autouse=True)
def without_garbage_collection():
    """Stop the search for cycles of objects: it takes half of the time, and there are none."""
    gc.disable()
    yield
    gc.enable()
