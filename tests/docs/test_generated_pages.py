"""The generated lines of the reference are those that the commands and settings give."""

import pytest

from teamwright.ui.cli.reference_pages import BEGIN, END, reference_pages, replace_part
from tests.docs.hand_written import without_generated_lines
from tests.docs.pages import ROOT
from tests.permissions import verdict_page
from tests.real import outcomes

OTHERS = {verdict_page.PAGE, outcomes.PAGE}
"""Pages whose generated lines come from tests."""

PAGES = sorted(page for page in ROOT.glob("docs/**/*.md") if BEGIN in page.read_text() and page not in OTHERS)


@pytest.fixture(scope="module")
def generated():
    return reference_pages(ROOT / "docs" / "reference")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_generated_lines_of_a_page_are_those_of_the_code(page, generated):
    assert page.read_text() == generated[page], "run `make generated`"


def test_no_other_page_has_generated_lines(generated):
    assert set(PAGES) == set(generated)
    assert all(BEGIN in page.read_text() for page in OTHERS)


def test_the_hand_written_lines_of_a_page_stay_when_the_others_are_replaced():
    page = f"# Title\n\n{BEGIN}\nold\n{END}\n\nBy hand.\n"
    assert without_generated_lines(replace_part(page, "new | text")) == "# Title\n\n\n\nBy hand.\n"
    assert "\nnew | text\n" in replace_part(page, "new | text")


def test_a_page_without_a_place_for_generated_lines_is_an_error():
    with pytest.raises(ValueError, match="needs one place"):
        replace_part("# Title\n", "new")
