"""Write `built_in_tools.json` from the tools, as a part of `make generated`."""

from __future__ import annotations

import json
from typing import Any

from teamwright import tools
from teamwright.agent.tool import input_schema
from teamwright.tools.built_in import ENTRIES_FILE


def entry(kind: str) -> dict[str, Any]:
    """Return the name, the aliases and the input schema of a built-in tool."""
    cls = getattr(tools, kind)
    return {"name": cls.name, "aliases": cls.aliases, "input_schema": input_schema(cls.input_type)}


def render_entries() -> str:
    """Return the contents for `built_in_tools.json`."""
    return json.dumps({kind: entry(kind) for kind in tools.MODULES}, ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    ENTRIES_FILE.write_text(render_entries(), "utf-8")
