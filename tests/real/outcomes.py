"""What became of the tests with real models: stored in `outcomes.json`, shown as a table in the docs.

`make real OUTCOMES=1` stores them. `python -m tests.real.outcomes` writes the table, as a part of `make generated`; a
test compares it.
"""

import datetime
import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

STORED = Path(__file__).parent / "outcomes.json"
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "tried-models.md"

LLAMA = "llama.cpp"
LITELLM = "LiteLLM"
PYTHONS = {
    LLAMA: os.environ.get("TEAMWRIGHT_REAL_PYTHON", ""),
    LITELLM: os.environ.get("TEAMWRIGHT_REAL_LITELLM", ""),
}
"""The Python of each service."""

PACKAGES = {LLAMA: "xllamacpp", LITELLM: "litellm"}
MODEL = "SmolLM2-135M-Instruct, Q4_1"
WIRES = {"chat": "Chat Completions", "messages": "Messages API", "responses": "Responses"}
WORDS = {"passed": "works", "failed": "fails"}


class Outcome(Struct, frozen=True):
    """What became of a feature on a wire of a service."""

    service: str
    feature: str
    wire: str
    outcome: str
    figures: Mapping[str, int]


def version_of(service: str) -> str:
    """Return the version of the package that has the service, from the environment where it runs."""
    code = f"import importlib.metadata as m; print(m.version({PACKAGES[service]!r}))"
    asked = [PYTHONS[service], "-c", code]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def store(seen: Iterable[Outcome]) -> None:
    """Write the outcomes over those of the same tests. Other tests keep what they had."""
    stored: dict[str, Any] = json.loads(STORED.read_text()) if STORED.exists() else {}
    for one in seen:
        service = stored.setdefault(one.service, {})
        service |= {
            "package": PACKAGES[one.service],
            "version": version_of(one.service),
            "model": MODEL,
            "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        }
        wires = service.setdefault("features", {}).setdefault(one.feature, {})
        wires[one.wire] = {"outcome": one.outcome, **one.figures}
    STORED.write_text(json.dumps(stored, indent=2) + "\n")


def render(stored: Mapping[str, Any]) -> str:
    """Return the tables, one for each service: a row for each feature, a column for each wire."""
    parts: list[str] = []
    for service in (one for one in PACKAGES if one in stored):
        about = stored[service]
        build = f" b{about['version'].rsplit('.')[-1]}" if service == LLAMA else ""
        parts += [
            f"{service}{build} (`{about['package']}` {about['version']}), {about['model']}, {about['date']}:",
            "",
            f"| | {' | '.join(WIRES.values())} |",
            "|---" * (len(WIRES) + 1) + "|",
        ]
        parts += [
            f"| {feature} | {' | '.join(_cell(wires.get(wire)) for wire in WIRES)} |"
            for feature, wires in about["features"].items()
        ]
        parts.append("")
    return "\n".join(parts).rstrip()


def _cell(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "–"
    counted = [f"{value:,} {name}" for name, value in row.items() if name != "outcome"]
    return ": ".join([WORDS[row["outcome"]], *([", ".join(counted)] if counted else [])])


if __name__ == "__main__":
    from teamwright.ui.cli.reference_pages import replace_part

    PAGE.write_text(replace_part(PAGE.read_text("utf-8"), render(json.loads(STORED.read_text()))), "utf-8")
