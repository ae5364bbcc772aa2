"""docs/README.md: the index names every document, and the README leads to it."""

import re

from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
INDEX = (DOCS / "README.md").read_text()


def test_every_document_is_in_the_index_by_what_a_reader_wants():
    named = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#]+)\)", INDEX)}
    tables = {DOCS / "README.md", *(DOCS / "reference" / "cli").glob("*.md"), *DOCS.glob("reference/formats/*.md")}
    assert not {page for page in DOCS.rglob("*.md") if "decisions" not in page.parts} - tables - named
    rows = [
        line for line in INDEX.splitlines() if line.startswith("| ") and not line.endswith(("| read |", "| pages |"))
    ]
    assert len(rows) > 20
    assert all("](" in row.split("|")[2] for row in rows)


def test_the_readme_leads_to_the_index_and_every_command_has_a_page_that_another_leads_to():
    assert "(docs/README.md)" in (ROOT / "README.md").read_text()
    links = set(re.findall(r"\]\((\w+\.md)", (DOCS / "reference" / "cli" / "teamwright.md").read_text()))
    assert {page.name for page in (DOCS / "reference" / "cli").glob("*.md")} - {"teamwright.md"} <= links


def test_every_page_of_a_format_is_in_the_table_of_files():
    table = (DOCS / "reference" / "formats" / "README.md").read_text()
    named = set(re.findall(r"\]\(([\w-]+\.md)", table))
    assert not {page.name for page in (DOCS / "reference" / "formats").glob("*.md")} - {"README.md"} - named
