"""Two thousand turns of one member leave nothing in memory that a thousand did not."""

from itertools import pairwise
from statistics import median

import pytest

from tests.scale.crew import child

BYTES_A_TURN = 500
"""Bytes that a turn of two model calls may leave once all caches are full; they were 2,000."""


@pytest.mark.slow
@pytest.mark.finding("T25")
def test_the_memory_of_a_lead_and_a_member_that_talk_for_two_thousand_turns_is_flat(tmp_path):
    found = child("turns", {"root": str(tmp_path), "turns": [*range(1_000, 2_001, 250)]})
    assert max(found["items"]) < 200, "its conversation is compacted"
    grown = [after - before for before, after in pairwise(found["heap"])]
    # What stays of each turn grows in each part; a new arena of the allocator, a MiB, comes once.
    assert median(grown) < 250 * BYTES_A_TURN, found["heap"]
