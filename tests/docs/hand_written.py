"""Count the words of docs/ that are written by hand. `python -m tests.docs.hand_written` prints them by page.

Words are what blanks separate, with a letter or a digit, in sentences, tables and code blocks. What `make generated`
writes is not counted: lines between the comments of `teamwright.ui.cli.reference_pages`, and the page for users of
Claude Code. Nor is the page about service faults, which `tests.models.formats.faults` writes.
"""

import re
from pathlib import Path

from teamwright.ui.cli.generate_help_files import COMING_FROM_PAGE
from teamwright.ui.cli.reference_pages import BEGIN, END
from tests.models.formats import faults

ROOT = Path(__file__).parents[2]
GENERATED = {str(COMING_FROM_PAGE), str(faults.PAGE.relative_to(ROOT))}
_WORD = re.compile(r"\S*\w\S*")
_GENERATED = re.compile(rf"^{re.escape(BEGIN)}\n.*?^{re.escape(END)}$", re.MULTILINE | re.DOTALL)


def without_generated_lines(page: str) -> str:
    """Return the lines of a page that are written by hand."""
    return _GENERATED.sub("", page)


def hand_written_words() -> dict[str, int]:
    """Return the number of words by page, as paths from the top of the repository."""
    pages = (str(page.relative_to(ROOT)) for page in sorted((ROOT / "docs").rglob("*.md")))
    return {
        page: len(_WORD.findall(without_generated_lines((ROOT / page).read_text("utf-8"))))
        for page in pages
        if page not in GENERATED
    }


if __name__ == "__main__":
    counted = hand_written_words()
    for page, words in sorted(counted.items(), key=lambda row: row[1]):
        print(f"{words:6} {page}")
    print(f"{sum(counted.values()):6} in all")
