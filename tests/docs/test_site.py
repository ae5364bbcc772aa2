"""The documentation site: its navigation, its Python reference, and the pages as a browser shows them."""

import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from html import unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import teamwright
import teamwright.testing
from tests.docs.pages import ROOT
from tests.support.programs import require
from tests.support.waits import WAIT_S

DOCS = ROOT / "docs"
CONFIG = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]
WIDTHS = {"desktop": 1280, "phone": 390}
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


def test_the_python_reference_has_every_public_name():
    written = set(re.findall(r"^::: (teamwright\S+)$", (DOCS / "reference" / "api.md").read_text(), re.MULTILINE))
    public = {f"teamwright.{name}" for name in teamwright.__all__}
    assert written == public | {f"teamwright.testing.{name}" for name in teamwright.testing.__all__}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the site with all warnings as errors, and serve it on loopback. Yields its URL."""
    if find_spec("zensical") is None:
        pytest.skip("zensical is not installed: make docs")
    place = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "zensical.toml", place)
    shutil.copytree(DOCS, place / "docs")
    (place / "src").symlink_to(ROOT / "src")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    handler = functools.partial(_QuietHandler, directory=str(place / "site"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def _browse(tmp_path: Path, *arguments: str) -> str:
    """Run the browser without a window and return what it prints. It requests nothing but the page."""
    command = [require("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += ["--disable-component-update", "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _text(html: str) -> str:
    main = re.search(r"<article.*?</article>", html, re.DOTALL)
    assert main, html[:2000]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", main[0])).split())


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_browser_shows_the_text_of_a_page_at_desktop_and_phone_width(site: str, page: str, tmp_path: Path):
    html = _browse(tmp_path, "--dump-dom", f"{site}/{page}")
    assert PAGES[page] in _text(html)
    assert not re.findall(r'(?:src|href)="(?:https?:)?//(?!127\.0\.0\.1)[^"]+\.(?:js|css|woff2?)', html)
    for name, width in WIDTHS.items():
        picture = tmp_path / f"{name}.png"
        _browse(tmp_path, f"--screenshot={picture}", f"--window-size={width},1000", f"{site}/{page}")
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert picture.stat().st_size > 10_000, "an empty picture"


@pytest.mark.slow
def test_the_search_index_contains_the_pages(site: str):
    with urlopen(f"{site}/search.json", timeout=WAIT_S) as answer:
        index = json.load(answer)
    assert any(
        entry["location"].startswith("reference/api/") and "set_budget" in str(entry) for entry in index["items"]
    )
