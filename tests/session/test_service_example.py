"""The service of `examples/service.py` is restarted and loses no job: each call ran once, each job has its result."""

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.waits import WAIT_S, wait_until

ROOT = Path(__file__).parents[2]
FILES = {"ann.txt": "the code\n", "ben.txt": "the tests\n", "cy.txt": "the docs\n"}


class Service:
    """The service on one socket, which outlives its processes: a request during a restart waits."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.start()

    def start(self) -> None:
        number = str(self.socket.fileno())
        words = ["--fd", number, "--app-dir", str(ROOT / "examples"), "--log-level", "warning", "service:app"]
        script = ROOT / "examples" / "scripts" / "service.toml"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", *words, "--timeout-graceful-shutdown", "1"],
            env={**os.environ, "SERVICE_DATA": str(self.data), "TEAMWRIGHT_MODEL": f"scripted:{script}"},
            pass_fds=[self.socket.fileno()],
        )

    def end(self, how: signal.Signals) -> None:
        self.process.send_signal(how)
        self.process.wait(timeout=WAIT_S)

    def get(self, path: str, body: object = None):
        url, data = f"http://127.0.0.1:{self.socket.getsockname()[1]}{path}", json.dumps(body).encode()
        request = urllib.request.Request(url, None if body is None else data)
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return json.load(answer)

    def allow(self, count: int) -> None:
        for question in self.get("/questions")[:count]:
            try:
                self.get(f"/questions/{question['id']}", {"allow": True})
            except urllib.error.HTTPError as problem:
                if problem.code != 404:  # a resume has asked again, under another id
                    raise

    def is_done(self) -> bool:
        self.allow(8)
        return all(job["state"] != "open" for job in self.get("/jobs"))


@contextmanager
def a_service(data: Path):
    service = Service(data)
    try:
        yield service
    finally:
        service.end(signal.SIGKILL)
        service.socket.close()


def restart(data: Path, how: signal.Signals, jobs: int) -> set[tuple[str, str]]:
    """Restart the service while calls run. Return the jobs and files of calls that the end of the process cut off."""
    with a_service(data) as service:
        ids = [service.get("/jobs", {"goal": f"job {number}"})["id"] for number in range(jobs)]
        wait_until(lambda: len(service.get("/questions")) >= 2 * jobs, "two questions a job")
        service.allow(jobs)  # some calls run, or are about to, when the signal comes
        service.end(how)
        service.start()
        wait_until(service.is_done, "the end of all jobs")
        found = {job["id"]: (job["state"], json.loads(job["result"])["text"]) for job in service.get("/jobs")}
        made = {id: {one.name: one.read_text() for one in (data / "jobs" / id).iterdir()} for id in ids}
    assert found == dict.fromkeys(ids, ("done", "Code, tests and docs are done."))
    missing = {(id, name) for id in ids for name in FILES if name not in made[id]}
    assert made == {id: {name: FILES[name] for name in FILES if (id, name) not in missing} for id in ids}, (
        "no call twice"
    )
    return missing


def transcript(data: Path, job: str, member: str) -> str:
    [path] = data.glob(f"home/projects/*{job}/*/agents/{member}.jsonl")
    return path.read_text()


@pytest.mark.finding("3L1")
def test_a_restart_of_the_service_spoils_no_job(tmp_path):
    assert not restart(tmp_path, signal.SIGTERM, 1)


@pytest.mark.slow
@pytest.mark.finding("3L1")
def test_a_restart_of_the_service_spoils_none_of_20_jobs(tmp_path):
    assert not restart(tmp_path, signal.SIGTERM, 20)


@pytest.mark.slow
@pytest.mark.finding("3L1")
def test_a_kill_of_the_service_cuts_off_only_calls_that_ran_and_their_members_know(tmp_path):
    for job, name in restart(tmp_path, signal.SIGKILL, 20):
        assert "The call was interrupted before it ended" in transcript(tmp_path, job, name.removesuffix(".txt"))
