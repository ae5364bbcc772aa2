"""The documentation site: its navigation, its Python reference, and the pages as a browser shows them."""

import json
import re
import struct
import tomllib
from collections.abc import Iterator
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.docs.pages import ROOT
from tests.docs.site_browser import HEIGHT, PICTURES, WIDTHS, browse, screenshot, served_site
from tests.support.programs import require
from tests.support.waits import WAIT_S

DOCS = ROOT / "docs"
CONFIG = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
PAGES = {
    "": "without a key",
    "tutorials/first-team/": "scout",
    "concepts/delivery/": "read flag",
    "reference/api/": "set_budget",
    "reference/cli/status/": "teamwright status",
    "reference/permissions/": "deny",
}
"""Pages that are opened, each with a text that its main part contains."""


def _pages_of(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, list):
        for one in entry:
            yield from _pages_of(one)
    else:
        for one in entry.values():
            yield from _pages_of(one)


def test_the_navigation_names_every_page_once():
    named = list(_pages_of(CONFIG["nav"]))
    assert len(named) == len(set(named))
    assert set(named) == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site with all warnings as errors, and serve it on loopback. Yields its URL."""
    if find_spec("zensical") is None:
        pytest.skip("zensical is not installed: make docs")
    with served_site(tmp_path_factory.mktemp("site")) as url:
        yield url


def _text(html: str) -> str:
    main = re.search(r"<article.*?</article>", html, re.DOTALL)
    assert main, html[:2000]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", main[0])).split())


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_browser_shows_the_text_of_a_page_at_desktop_and_phone_width(site: str, page: str, tmp_path: Path):
    chromium = require("chromium")
    html = browse(chromium, tmp_path, "--dump-dom", f"{site}/{page}")
    assert PAGES[page] in _text(html)
    assert not re.findall(r'(?:src|href)="(?:https?:)?//(?!127\.0\.0\.1)[^"]+\.(?:js|css|woff2?)', html)
    for width in WIDTHS.values():
        picture = screenshot(chromium, tmp_path, f"{site}/{page}", width)
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 10_000, "an empty picture"


@pytest.mark.parametrize("name", WIDTHS)
def test_the_pictures_of_the_site_have_their_widths(name: str):
    picture = (PICTURES / f"site-{name}.png").read_bytes()
    assert struct.unpack(">8sI4sII", picture[:24])[3:] == (WIDTHS[name], HEIGHT)


@pytest.mark.slow
def test_the_search_index_contains_the_pages(site: str):
    with urlopen(f"{site}/search.json", timeout=WAIT_S) as answer:
        index = json.load(answer)
    assert any(
        entry["location"].startswith("reference/api/") and "set_budget" in str(entry) for entry in index["items"]
    )
