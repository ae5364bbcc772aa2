"""Background commands that outlive the program that ran them: on disk, told once, under an id of their own."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from teamwright.agent import background_jobs
from teamwright.agent.background_jobs import JOBS_FILE, BackgroundJobs, Job, JobJournal
from teamwright.processes.commands import ProcessCommand
from tests.support.waits import WAIT_S


def job(name: str, **more) -> Job:
    return Job(name, "ada", "npm run dev --token hush", Path("/out") / name, 7, 1000, **more)


def command(script: str, cwd: Path) -> ProcessCommand:
    return ProcessCommand(("/bin/sh", "-c", script), cwd, {"PATH": os.environ["PATH"]})


@pytest.fixture
def session(tmp_path):
    (tmp_path / "session").mkdir()
    return tmp_path / "session"


@pytest.fixture
async def jobs(session):
    made = BackgroundJobs(session=session, grace_s=0.3)
    yield made
    await made.close()


@pytest.mark.promise("D8", "F62")
def test_a_job_that_nobody_saw_end_is_killed_and_one_that_ended_says_how(session):
    journal = JobJournal(session, redact=lambda text: text.replace("hush", "…"))
    for name in ("b1", "b2", "b3"):
        journal.record_start(job(name, description="a server" if name == "b1" else ""))
    journal.record_end(job("b2", state="failed", exit_code=3))
    journal.record_end(job("b3", state="stopped"))
    found = JobJournal(session).unreported()
    assert [(one.id, one.state, one.exit_code) for one in found] == [
        ("b1", "killed", None),
        ("b2", "failed", 3),
        ("b3", "stopped", None),
    ]
    first = found[0]
    assert (first.owner, first.description, first.file, first.pid) == ("ada", "a server", Path("/out/b1"), 7)
    assert first.command == "npm run dev --token …" and b"hush" not in (session / JOBS_FILE).read_bytes()
    assert (session / JOBS_FILE).stat().st_mode & 0o777 == 0o600
    assert journal.unreported() == [], "what runs in this life is not lost"
    again = JobJournal(session)
    assert [one.id for one in again.unreported()] == ["b1", "b2", "b3"]
    again.mark_reported(["b1", "b3"])
    assert [one.id for one in again.unreported()] == [one.id for one in JobJournal(session).unreported()] == ["b2"]


def test_a_command_stays_out_of_the_file_unless_somebody_says_how_it_may_be_shown(session):
    JobJournal(session).record_start(job("b1"))
    assert b"npm" not in (session / JOBS_FILE).read_bytes() and JobJournal(session).unreported()[0].command == ""


@pytest.mark.promise("F55")
def test_a_damaged_line_costs_that_line(session):
    journal = JobJournal(session)
    journal.record_start(job("b1"))
    journal.close()
    with open(session / JOBS_FILE, "ab") as file:
        file.write(b'\xff\n[]\n{"id":"b1","type":"ended","state":"nonsense","at":1}\n{"id":"b9","type":"begun"}\n')
        file.write(b'{"id":"b1","type":"ended","state":"comp')
    assert [(one.id, one.state) for one in JobJournal(session).unreported()] == [("b1", "killed")]
    later = JobJournal(session)
    later.record_end(job("b1", state="completed", exit_code=0))
    assert [(one.id, one.state) for one in JobJournal(session).unreported()] == [("b1", "completed")]
    assert "b9" in later.used_ids


def test_no_session_no_lost_jobs(tmp_path):
    assert JobJournal(tmp_path / "nothing").unreported() == []
    assert BackgroundJobs().unreported() == []


@pytest.mark.promise("P6")
async def test_a_file_that_cannot_be_written_costs_the_note_and_not_the_job(session, tmp_path):
    (session / JOBS_FILE).mkdir()
    ended: asyncio.Queue[Job] = asyncio.Queue()
    jobs = BackgroundJobs(session=session)
    jobs.follow_ends(ended.put_nowait)
    started = jobs.start(command("echo out", tmp_path), owner="ada", scratch=tmp_path, text="echo out")
    async with asyncio.timeout(WAIT_S):
        assert (await ended.get()).state == "completed"
    assert started.file.read_text() == "out\n"
    await jobs.close()


async def test_an_id_is_never_given_again_whatever_life_it_was_used_in(session, tmp_path, monkeypatch, jobs):
    JobJournal(session).record_start(job("b00001"))
    ids = iter(["b00001", "b00001", "b00002", "b00001", "b00002", "b00003"])
    monkeypatch.setattr(background_jobs, "job_id", lambda: next(ids))
    resumed = BackgroundJobs(session=session, grace_s=0.3)
    made = [resumed.start(command("true", tmp_path), owner="ada", scratch=tmp_path, text="true").id for _ in range(2)]
    assert made == ["b00002", "b00003"]
    await resumed.close()


@pytest.mark.promise("F21")
async def test_jobs_that_a_closing_session_stopped_are_told_of_when_it_goes_on(jobs, session, tmp_path):
    made = jobs.start(command("exec sleep 600", tmp_path), owner="bob", scratch=tmp_path, text="sleep")
    await jobs.close()
    assert [(one.id, one.owner, one.state) for one in JobJournal(session).unreported()] == [(made.id, "bob", "stopped")]


async def test_the_record_of_a_job_names_it_while_it_runs(jobs, session, tmp_path):
    made = jobs.start(command("exec sleep 600", tmp_path), owner="ada", scratch=tmp_path, text="sleep")
    [record] = (session / "processes").iterdir()
    facts = json.loads(record.read_text())
    assert (facts["member"], facts["job"], facts["pid"], facts["output"]) == ("ada", made.id, made.pid, str(made.file))
    await jobs.stop(made.id)
    assert list((session / "processes").iterdir()) == []
