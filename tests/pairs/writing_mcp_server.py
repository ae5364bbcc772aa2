"""A server with one tool, `write`, which makes a file in its directory; the result is where that is."""

import json
import os
import sys
from typing import Any

TOOL = {"name": "write", "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}


def answer(message: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "initialize":
            version = message["params"]["protocolVersion"]
            about = {"name": "writer", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            path = os.path.join(os.getcwd(), message["params"]["arguments"]["name"])
            with open(path, "w") as file:
                file.write("from the server\n")
            return {"content": [{"type": "text", "text": f"{path} {os.getpid()}"}]}
        case _:
            return {}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer(asked)}), flush=True)
