"""An MCP server with fifty tools, on stdin and stdout: `python -m bench.served`. Only its list matters in W4."""

from __future__ import annotations

import json
import sys
from typing import Any

TOOLS = 50


def tool(number: int) -> dict[str, Any]:
    """The N-th tool, described about as long as servers of the field do."""
    properties = {
        "path": {"type": "string", "description": "The record, as the list names it."},
        "fields": {"type": "array", "items": {"type": "string"}, "description": "Only these fields of it."},
        "limit": {"type": "integer", "minimum": 1, "default": 20},
    }
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    text = f"Looks up records of the table {number} and gives the fields that are asked for."
    return {"name": f"look_up_{number}", "description": text, "inputSchema": schema}


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """What a request is answered with."""
    if method == "initialize":
        about = {"name": "served", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": about}
    return {"tools": [tool(number) for number in range(TOOLS)]} if method == "tools/list" else {"content": []}


def main() -> None:
    """Answer until nobody asks any more."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": result_of(message["method"], message["params"])}
            print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
