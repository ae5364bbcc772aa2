"""A server of the official SDK: `stdio`, or `events` / `json` / `sse` with a port."""

import sys

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("oracle")


@server.tool()
def add(a: int, b: int = 2) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def boom() -> str:
    """Fails."""
    raise RuntimeError("no")


@server.tool()
async def count(ctx: Context) -> str:
    """Counts, and says how far it is."""
    for step in range(3):
        await ctx.report_progress(step, 3, f"step {step}")
    return "three"


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    elif sys.argv[1] == "sse":
        server.run("sse", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]), json_response=sys.argv[1] == "json")
