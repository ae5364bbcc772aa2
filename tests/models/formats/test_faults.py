"""The page of faults says what each fault becomes in each format: it is what a run finds."""

import pytest

from tests.models.formats.faults import FAULTS, FORMATS, PAGE, page


@pytest.mark.slow
@pytest.mark.finding("M5", "M8", "M9", "M12", "M13", "M14", "M15")
async def test_the_page_of_faults_is_what_a_run_finds():
    assert (await page()).splitlines() == PAGE.read_text().splitlines()


def test_the_page_has_a_row_for_each_fault_and_a_column_for_each_format():
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows[1:]] == list(FAULTS)
    assert len(FAULTS) >= 40
    assert all(row.count(" | ") == len(FORMATS) for row in rows)
