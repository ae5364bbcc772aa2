"""Build the documentation site, serve it on loopback and look at it with Chromium.

`python -m tests.docs.site_browser` writes the pictures of the first page into docs/pictures, as `make pictures` does.
"""

import functools
import http.server
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waits import WAIT_S

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"
WIDTHS = {"desktop": 1280, "phone": 390}
"""The widths at which pages are opened, in pixels."""

HEIGHT = 1000


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def served_site(place: Path) -> Iterator[str]:
    """Build the site in the directory `place`, with all warnings as errors, and serve it. Yields its URL."""
    shutil.copy(ROOT / "zensical.toml", place)
    shutil.copytree(ROOT / "docs", place / "docs")
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


def browse(chromium: str, place: Path, *arguments: str) -> str:
    """Run the browser without a window and return what it prints. It requests nothing but the page."""
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    command += ["--disable-component-update", "--no-first-run", f"--user-data-dir={place / 'profile'}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def screenshot(chromium: str, place: Path, url: str, width: int) -> bytes:
    """Return a PNG of the page at this width."""
    picture = place / f"{width}.png"
    browse(chromium, place, f"--screenshot={picture}", f"--window-size={width},{HEIGHT}", url)
    return picture.read_bytes()


def main() -> None:
    """Write a picture of the first page at each width."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("chromium is not installed: the pictures of the site stay as they are")
    with tempfile.TemporaryDirectory(prefix="tw-") as name, served_site(Path(name)) as url:
        for title, width in WIDTHS.items():
            (PICTURES / f"site-{title}.png").write_bytes(screenshot(chromium, Path(name), url, width))
            print(f"docs/pictures/site-{title}.png")


if __name__ == "__main__":
    main()
