"""A job service: each job is a team of three members, and a restart of the service loses no job.

TEAMWRIGHT_MODEL=sonnet python examples/service.py 8000          then open http://127.0.0.1:8000/
TEAMWRIGHT_MODEL=scripted:examples/scripts/service.toml python examples/service.py 8000       (no key, no network)
"""

import asyncio
import json
import os
import sqlite3
import sys
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from teamwright import Budget, Team, TeamwrightError

DATA = Path(os.environ.get("SERVICE_DATA", "service-data")).resolve()
HOME = DATA / "home"
PAGE = Path(__file__).with_name("service.html")
MEMBERS = {"ann": "the code", "ben": "the tests", "cy": "the docs"}

database: sqlite3.Connection
running: dict[str, Team] = {}
work: dict[str, asyncio.Task[None]] = {}


def save(job: str, state: str, result: dict[str, Any]) -> None:
    """Store how a job ended."""
    database.execute("update jobs set state = ?, result = ? where id = ?", (state, json.dumps(result), job))
    database.commit()


async def do(job: str, goal: str) -> None:
    """Do a job to its end. A job that an earlier process began is continued."""
    name, directory = f"job-{job}", DATA / "jobs" / job
    directory.mkdir(parents=True, exist_ok=True)
    model, budget = os.environ.get("TEAMWRIGHT_MODEL", "sonnet"), Budget(usd=5, minutes=30)
    try:
        if any(team.name == name for team in Team.list(HOME)):
            team = Team.resume(name, model=model, budget=budget, home=HOME, on_exit="suspend", keep=False)
        else:
            team = Team(name, model=model, budget=budget, home=HOME, cwd=directory, on_exit="suspend", keep=False)
        async with team:
            running[job] = team
            there = {member.name for member in team.members}
            for member, part in MEMBERS.items():
                if member not in there:
                    await team.spawn(member, f"Work on {part} of: {goal}")
            result = await team.run(f"See this through with your members, then report: {goal}")
            save(job, result.stop, result.as_json())
    except TeamwrightError as error:
        save(job, "failed", {"error": error.what})
    finally:
        running.pop(job, None)
        work.pop(job, None)


async def post_job(request: Request) -> JSONResponse:
    """Take a job: `{"goal": "…"}`."""
    job, goal = uuid.uuid4().hex[:8], str((await request.json())["goal"])
    database.execute("insert into jobs values (?, ?, 'open', '')", (job, goal))
    database.commit()
    work[job] = asyncio.create_task(do(job, goal))
    return JSONResponse({"id": job}, 201)


async def get_page(_request: Request) -> FileResponse:
    """Show the page."""
    return FileResponse(PAGE)


async def get_jobs(_request: Request) -> JSONResponse:
    """List all jobs with their results."""
    rows = database.execute("select id, goal, state, result from jobs").fetchall()
    return JSONResponse([dict(zip(("id", "goal", "state", "result"), row, strict=True)) for row in rows])


async def get_events(request: Request) -> Response:
    """Stream the events of a running job; a browser that reconnects continues where it was."""
    team = running.get(request.path_params["job"])
    if team is None:
        return Response(status_code=204)
    events = team.events(after=int(request.headers.get("last-event-id", "0")), answers=False)

    async def stream() -> AsyncIterator[str]:
        async for number, event in events:
            yield f"id: {number}\ndata: {json.dumps(event.as_json())}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


async def get_questions(_request: Request) -> JSONResponse:
    """List the open requests of all jobs, also of those that wait for a restart."""
    return JSONResponse([request.as_json() for request in Team.open_requests(HOME)])


async def answer(request: Request) -> JSONResponse:
    """Answer a request: `{"allow": true}` or `{"allow": false, "reason": "…"}`."""
    body, id = await request.json(), request.path_params["id"]
    for question in Team.open_requests(HOME):
        if question.id == id:
            counts = await (question.allow() if body["allow"] else question.deny(str(body.get("reason", ""))))
            return JSONResponse({"counts": counts})
    return JSONResponse({"error": "no such request"}, 404)


@asynccontextmanager
async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
    """Continue the jobs that are open; at the end suspend them."""
    global database
    DATA.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(DATA / "jobs.db")
    database.execute("create table if not exists jobs (id text primary key, goal text, state text, result text)")
    for job, goal in database.execute("select id, goal from jobs where state = 'open'").fetchall():
        work[job] = asyncio.create_task(do(job, goal))
    yield
    for task in (tasks := list(work.values())):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


routes = [
    Route("/", get_page),
    Route("/jobs", get_jobs),
    Route("/jobs", post_job, methods=["POST"]),
    Route("/jobs/{job}/events", get_events),
    Route("/questions", get_questions),
    Route("/questions/{id}", answer, methods=["POST"]),
]
app = Starlette(routes=routes, lifespan=lifespan)

if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=1)
