"""A server with two tools: `write` makes a file in its directory and returns where that is, `read` returns a file."""

import json
import os
import sys
from typing import Any

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}
TOOLS = [{"name": name, "inputSchema": SCHEMA} for name in ("write", "read")]


def write(path: str) -> str:
    with open(path, "w") as file:
        file.write("from the server\n")
    return f"{path} {os.getpid()}"


def read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError as problem:
        return str(problem)


def answer(message: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            about = {"name": "writer", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            path = os.path.join(os.getcwd(), message["params"]["arguments"]["name"])
            text = read(path) if message["params"]["name"] == "read" else write(path)
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked)}), flush=True)
