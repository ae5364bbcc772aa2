"""The words of the documents and of the code: a budget for each file and for all pages, and no retired names."""

import re
from pathlib import Path

import pytest

from tests.docs.hand_written import hand_written_words
from tests.docs.pages import ROOT
from tests.structure.rules import DIALECT
from tests.structure.source import Module, modules

PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
PER_1000_OF_A_PAGE = 1
PER_1000_OF_A_MODULE = 2
HAND_WRITTEN = 92_000
"""The most words that are written by hand in docs/, as `tests/docs/hand_written.py` counts them."""

RETIRED = re.compile(
    r"\b(seat mates?|foreigners?|strangers?|one of ours|answerers?|askers?|ledgers?|purses?|courtesy|way back|wayback|"
    r"scribes?|goodbye|farewell|parting|leftovers|outliving|bundling|manners|housing|hearing|letters? from)\b",
    re.IGNORECASE,
)
"""Names that the glossary replaced."""

KEPT = re.compile(r"goodbye_s|`[^`\n]*`")
"""Keys of formats keep their names, and names of code are in backquotes."""


def found_words(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return the matches with their lines, as `line: word`."""
    lines = text.splitlines()
    return [f"{number}: {match[0]}" for number, line in enumerate(lines, 1) for match in pattern.finditer(line)]


def over_budget(text: str, per_1000: int) -> list[str]:
    """Return the words of the dialect when there are more of them than the budget allows, else nothing."""
    found = found_words(DIALECT, text)
    return found if 1000 * len(found) > per_1000 * len(text.split()) else []


def test_the_documents_keep_the_budget_of_hand_written_words():
    words = hand_written_words()
    assert sum(words.values()) <= HAND_WRITTEN, sorted(words.items(), key=lambda row: -row[1])[:10]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_keeps_the_budget_of_words(page: Path):
    assert not [f"{page.relative_to(ROOT)}:{word}" for word in over_budget(page.read_text(), PER_1000_OF_A_PAGE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_no_retired_name(page: Path):
    text = KEPT.sub("", page.read_text())
    assert not [f"{page.relative_to(ROOT)}:{word}" for word in found_words(RETIRED, text)]


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_docstrings_and_comments_of_a_module_keep_the_budget_of_words(module: Module):
    found = over_budget(module.prose(), PER_1000_OF_A_MODULE)
    words = "|".join(re.escape(word.partition(": ")[2]) for word in found)
    assert not [
        f"{module.path.name}:{word}" for word in found_words(re.compile(rf"\b({words})\b"), module.text) if found
    ]


def test_a_word_over_the_budget_is_named_with_its_line():
    assert over_budget("Plain words.\nWhoever asks.", 1) == ["2: Whoever"]
    assert over_budget("Whoever asks. " + "word " * 1000, 1) == []
