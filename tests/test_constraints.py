"""The pins of constraints.txt: each must install on the oldest Python that pyproject.toml admits."""

import tomllib
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]


def test_every_pin_installs_on_the_oldest_python_that_is_promised():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=") + ".0"
    pins = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line]
    looked_at: list[str] = []
    refused: list[str] = []
    for pin in pins:
        try:
            installed, needs = version(pin.name), metadata(pin.name)["Requires-Python"]
        except PackageNotFoundError:
            continue
        if not pin.specifier.contains(installed):
            continue
        looked_at.append(pin.name)
        if needs and not SpecifierSet(needs).contains(oldest):
            refused.append(f"{pin} needs Python {needs}")
    assert not refused, f"on Python {oldest} pip finds no such version, and the first `make demo` ends there: {refused}"
    assert "soupsieve" in looked_at, "the environment is not the pinned one: `make check` brings it up to date"
