"""Answer requests by a program: change one call before it runs, grant one kind, and deny the others.

python examples/answering.py
TEAMWRIGHT_MODEL=scripted:examples/scripts/answering.toml python examples/answering.py   (no key, no network)
"""

import asyncio
import os

from teamwright import RequestOpened, Team


async def decide(request: RequestOpened) -> None:
    """Answer one request. The first answer counts, and each answer returns whether it was the first."""
    command = str(request.input.get("command", ""))
    modes = [update for update in request.suggestions if update["type"] == "setMode"]
    if command.endswith("production"):
        instead = {**request.input, "command": command.removesuffix("production") + "staging"}
        first, did = await request.allow(input=instead), "changed to staging"
    elif request.tool == "Write" and modes:
        first, did = await request.allow(updates=modes), "allowed, with all further edits"
    else:
        first, did = await request.deny("this program does not allow this call"), "denied"
    print(f"{request.member} {request.tool}: {did if first else 'another answer was first'}")


async def main() -> int:
    model = os.environ.get("TEAMWRIGHT_MODEL", "sonnet")
    async with Team("deploy", model=model, on_request=decide, replace=True) as team:
        result = await team.run("Run `sh deploy.sh production`, write what happened into two files, and tidy up.")
    print(result.text)
    print(f"denied: {[call['tool_name'] for call in result.denials]}")
    return result.exit_code


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
