"""Write a custom user interface: one line per event, requests answered at the keyboard, and a number to reconnect.

python examples/custom_surface.py "What is in this directory?"
TEAMWRIGHT_MODEL=scripted:examples/scripts/custom_surface.toml python examples/custom_surface.py   (no key, no network)
"""

import asyncio
import os
import sys

from teamwright import MemberChanged, MessageSent, RequestOpened, TaskChanged, Team, TextDelta, ToolCalled


async def ask(request: RequestOpened) -> None:
    """Ask the person at the keyboard about one request; the first answer from any source counts."""
    print(f"? {request.member} wants {request.tool}: {request.what}\n  because of {request.rule}")
    if request.kind == "question":
        await request.answer(await asyncio.to_thread(input, "  your answer: "))
        return
    choice = await asyncio.to_thread(input, "  y = yes, a = always, anything else = no: ")
    if choice in {"y", "a"}:
        await request.allow(always=choice == "a")
    else:
        await request.deny("the person at the keyboard said no")


async def show(team: Team, after: int = 0) -> int:
    """Print events until the team is left. Return the number of the last event, with which `after` continues."""
    async for number, event in team.events(after=after):
        after = number
        match event:
            case TextDelta():
                print(event.text, end="", flush=True)
            case ToolCalled():
                print(f"\n{number:4} {event.member:10} {event.tool} {event.summary} ({event.outcome})")
            case TaskChanged(task=task):
                print(f"{number:4} {event.member:10} #{task.id} {event.change} {task.owner or ''}")
            case MessageSent():
                print(f"{number:4} {event.member:10} → {event.to}: {event.summary}")
            case MemberChanged():
                print(f"{number:4} {event.member:10} is {event.state}")
            case RequestOpened():
                await ask(event)
            case _:
                pass  # kinds that this interface does not show, and those of later versions
    return after


async def main() -> int:
    prompt = " ".join(sys.argv[1:]) or "What is in this directory? Put the answer into ANSWER.txt."
    async with Team("desk", model=os.environ.get("TEAMWRIGHT_MODEL", "sonnet"), replace=True) as team:
        showing = asyncio.create_task(show(team))
        result = await team.run(prompt)
    print(f"\n{await showing} events, {result.stop}, {result.usage}")
    return result.exit_code


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
