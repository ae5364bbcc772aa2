"""The live suite: the program against a real service, when `make live` asks for it and no other time."""

from pathlib import Path

import pytest

from tests.live.service import ANSWER_MOST, ASKED, NOT_ASKED, REAL, TOKENS_EACH, USD_EACH, Live, models, why_none
from tests.ui.conftest import repo as repo


def pytest_report_header() -> str:
    """What will be tried, and what it may cost."""
    if not ASKED:
        return ""
    tried = ", ".join(models(REAL)) or "nothing: " + why_none(REAL)
    return f"live: {tried}; each run at most {USD_EACH:.2f} USD, or {TOKENS_EACH:,} tokens at an unknown price"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "model" in metafunc.fixturenames:
        metafunc.parametrize("model", (models(REAL) if ASKED else []) or ["none"])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/live/"):
            item.add_marker(pytest.mark.live)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture
def live(model: str, tmp_path: Path, repo: Path) -> Live:
    """The program in a small repository, with one model; skipped with a sentence where nothing is to be tried."""
    if not ASKED:
        pytest.skip(NOT_ASKED)
    if model == "none":
        pytest.skip(why_none(REAL))
    made = Live(repo, tmp_path / "state")
    made.model = model
    made.settings(max_output_tokens=ANSWER_MOST, retries=2)
    return made
