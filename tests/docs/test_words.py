"""The words of the documents and of the code: a budget for each file and for all pages, and no retired names."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.docs.hand_written import hand_written_words
from tests.docs.pages import ROOT
from tests.structure.rules import DIALECT
from tests.structure.source import Module, modules

pytestmark = pytest.mark.usefixtures("without_garbage_collection")

PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
PER_1000_OF_A_PAGE = 1
PER_1000_OF_A_MODULE = 2
HAND_WRITTEN = 56_000
"""The most words that are written by hand in docs/, as `tests/docs/hand_written.py` counts them."""

RETIRED = re.compile(
    r"\b(mates?|seats?|one of ours|foreigners?|strangers?|guest's lead|housing|standings?|in life|going on|gone on|"
    r"hearing|heard|told of|letters? from|desks?|rung|answerers?|askers?|manners|ledgers?|purses?|booked|courtesy|"
    r"brakes?|governors?|stagger(?:ed|s)?|pacing|recipes?|way back|wayback|evidence|trial|bundling|scribes?|goodbye|"
    r"farewell|partings?|saw out|renewing|leftovers|outliving|shortening|guests?|placed|(?<!-)engines?|books?|ground|"
    r"box(?:es)?|told|tells?|telling|hears?|looking|floors?|walls?(?!-clock))\b",
    re.IGNORECASE,
)
"""Names that the glossary replaced. Its other retired names are ordinary words too, such as "asked" and "place"."""

KEPT = re.compile(r"goodbye_s|`[^`\n]*`")
"""Keys of formats keep their names, and names of code are in backquotes."""


def found_words(pattern: re.Pattern[str], text: str) -> list[str]:
    """Return the matches with their lines, as `line: word`."""
    lines = text.splitlines()
    return [f"{number}: {match[0]}" for number, line in enumerate(lines, 1) for match in pattern.finditer(line)]


def spoken_texts(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each string of a module that has several words and is not a docstring."""
    nodes = list(nodes)
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if " " in text and id(node) not in docstrings:
                yield node.lineno, text
            case _:
                pass


def over_budget(text: str, per_1000: int) -> list[str]:
    """Return the words of the dialect when there are more of them than the budget allows, else nothing."""
    found = found_words(DIALECT, text)
    return found if 1000 * len(found) > per_1000 * len(text.split()) else []


def modules_of(layer: str) -> list[Module]:
    """Return the modules of a top-level package."""
    return [module for module in modules() if module.layer == layer]


by_layer = pytest.mark.parametrize("layer", sorted({module.layer for module in modules()}))
"""A test for each top-level package: one for each module would cost ten times as much."""


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


@pytest.mark.parametrize("text", sorted(ROOT.glob("src/**/*.md")), ids=lambda path: path.stem)
def test_a_text_for_the_model_has_no_retired_name_and_no_dialect(text: Path):
    shown = KEPT.sub("", text.read_text())
    assert not found_words(RETIRED, shown) + found_words(DIALECT, shown)


@by_layer
def test_help_errors_and_screen_texts_of_modules_have_no_retired_name_and_no_dialect(layer: str):
    assert not [
        f"{module.path.name}:{line}: {match[0]}"
        for module in modules_of(layer)
        for line, text in spoken_texts(module.nodes)
        for pattern in (RETIRED, DIALECT)
        for match in pattern.finditer(KEPT.sub("", text))
    ]


def test_a_retired_name_in_a_string_is_found_and_one_in_a_docstring_is_not():
    source = '"""The ledger of a team."""\nX = f"{1} the purse is empty"\nY = "ledger"\n'
    assert [text for _, text in spoken_texts(ast.walk(ast.parse(source)))] == [" the purse is empty"]
    assert found_words(RETIRED, "the purse is empty") == ["1: purse"]


def words_over_budget(module: Module) -> list[str]:
    """Return the words of the dialect in docstrings and comments, with their file and lines, if they are too many."""
    found = over_budget(module.prose(), PER_1000_OF_A_MODULE)
    if not found:
        return []
    words = "|".join(re.escape(word.partition(": ")[2]) for word in found)
    return [f"{module.path.name}:{word}" for word in found_words(re.compile(rf"\b({words})\b"), module.text)]


@by_layer
def test_docstrings_and_comments_of_each_module_keep_the_budget_of_words(layer: str):
    assert not [word for module in modules_of(layer) for word in words_over_budget(module)]


def test_a_word_over_the_budget_is_named_with_its_line():
    assert over_budget("Plain words.\nWhoever asks.", 1) == ["2: Whoever"]
    assert over_budget("Whoever asks. " + "word " * 1000, 1) == []
