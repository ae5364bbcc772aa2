"""The page of tried models shows the outcomes that the suite with real models stored."""

import json
import re

from teamwright.ui.cli.reference_pages import replace_part
from tests.docs.pages import ROOT
from tests.real import outcomes

STORED = json.loads(outcomes.STORED.read_text())
FEATURE = re.compile(r'@pytest\.mark\.feature\("([^"]+)"')


def test_the_tables_of_tried_models_are_those_of_the_stored_outcomes():
    page = outcomes.PAGE.read_text()
    assert page == replace_part(page, outcomes.render(STORED)), "run `make generated`"


def test_each_row_has_a_test_that_makes_it():
    made = {name for file in (ROOT / "tests" / "real").glob("test_*.py") for name in FEATURE.findall(file.read_text())}
    assert {feature for service in STORED.values() for feature in service["features"]} <= made


def test_an_outcome_is_shown_with_its_figures_and_a_wire_that_was_not_tried_as_a_dash():
    row = {"chat": {"outcome": "passed", "fresh": 12, "cached": 1_016}, "messages": {"outcome": "failed"}}
    about = {"package": "p", "version": "1", "model": "m", "date": "2026-01-01", "features": {"A call": row}}
    assert outcomes.render({"llama.cpp": about}).splitlines()[-1] == (
        "| A call | works: 12 fresh, 1,016 cached | fails | – |"
    )
