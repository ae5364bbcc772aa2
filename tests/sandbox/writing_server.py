"""An MCP server with one tool, which writes the files that its arguments name, or reads those after `read:`."""

import json
import sys

TOOL = {"name": "write", "description": "Write.", "inputSchema": {"type": "object", "properties": {}}}
SERVER = {"capabilities": {"tools": {}}, "serverInfo": {"name": "notes", "version": "1"}}


def answer(method: str, version: str) -> dict:
    match method:
        case "initialize":
            return {"protocolVersion": version, **SERVER}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            said = [write(path) for path in sys.argv[1:]]
            return {"content": [{"type": "text", "text": " ".join(said)}]}
        case _:
            return {}


def write(path: str) -> str:
    try:
        if path.startswith("read:"):
            with open(path.removeprefix("read:"), encoding="utf-8") as file:
                return file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write("x")
    except OSError as problem:
        return str(problem)
    return "wrote"


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}).get("protocolVersion", ""))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
