"""The documents: links lead somewhere, every page is found from the README, and nobody's machine is in them."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def tracked(*patterns: str) -> list[Path]:
    """Files of the project, also those that are not committed yet; what git ignores is none."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


PAGES = tracked("*.md")


def links(page: Path) -> list[str]:
    return [link for link in LINK.findall(page.read_text()) if not link.startswith(("http:", "https:", "mailto:"))]


def anchors(page: Path) -> set[str]:
    made = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in HEADING.findall(page.read_text()))
    return set(made)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_leads_to_a_file_and_to_a_heading_in_it(page):
    for link in links(page):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_found_from_the_readme():
    found, todo = set[Path](), [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in found or not page.is_file():
            continue
        found.add(page)
        for link in links(page) if page.suffix == ".md" else ():
            target = (page.parent / link.partition("#")[0]).resolve()
            todo += sorted(target.glob("*.md")) if target.is_dir() else [target]
    pages = {page.resolve() for page in tracked("docs/*.md")}
    assert pages
    assert not pages - found


def test_no_file_names_a_registry_or_somebody_s_machine():
    words = ("pypi" + ".org", "registry.npmjs" + ".org", "files.python" + "hosted", "index-" + "url", "/root" + "/")
    for path in tracked("*.md", "*.toml", "*.txt", "Makefile", ".ci/*", "src/*", "examples/*"):
        if path.name == "named_hosts.py":
            continue  # the usual registries, of which commands need not ask
        text = path.read_bytes().decode("utf-8", "replace").lower()
        assert not [word for word in words if word in text], path


def test_the_readme_is_short_and_narrow():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 180
    assert [line for line in lines if len(line) > 120] == []
