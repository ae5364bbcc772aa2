"""Who is told of a background command that ended with an earlier life of the session, and who is not."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from teamwright.agent.background_jobs import Job, JobJournal
from teamwright.agent.conversation import Conversation, UserMessage
from teamwright.models.model import Prefix
from teamwright.protocol.ids import now_ms
from teamwright.protocol.messages import text_block
from teamwright.teams.job_notices import notify_lost


class Agent:
    """One who may be told: a real conversation, and what was said to it."""

    def __init__(self, tmp_path: Path, name: str) -> None:
        self.conversation = Conversation.start(tmp_path / f"{name}.jsonl", Prefix("m", b""), {})
        self.agent = self.incoming = self
        self.woken: list[tuple[str, str]] = []
        self.beside: list[tuple[str, str]] = []

    def notify(self, text: str, key: str, *, wakes: bool = True) -> None:
        (self.woken if wakes else self.beside).append((text, key))


@pytest.fixture
def crew(tmp_path):
    return {name: Agent(tmp_path, name) for name in ("team-lead", "ada")}


def begun(session: Path, *jobs: tuple[str, str]) -> JobJournal:
    journal = JobJournal(session)
    for name, owner in jobs:
        journal.record_start(Job(name, owner, "", session / name, 7, 0))
    return journal


def tell(session: Path, crew, lead=True) -> list[str]:
    team = SimpleNamespace(find_in_process=lambda name: crew.get(name), subagents=None)
    told = notify_lost(
        JobJournal(session), team, crew["team-lead"] if lead else None, lambda job: f"{job.id} {job.state}"
    )
    return [job.id for job in told]


@pytest.mark.promise("D8", "F05")
def test_each_owner_is_told_until_its_transcript_has_it_and_then_never_again(tmp_path, crew):
    begun(tmp_path, ("b1", "team-lead"), ("b2", "ada"))
    assert tell(tmp_path, crew) == ["b1", "b2"] == tell(tmp_path, crew), "killed before it was told: told again"
    assert crew["ada"].woken == [("b2 killed", "job-b2")] * 2
    crew["ada"].conversation.append_user_message(UserMessage((text_block("b2 killed"),), ("notice:job-b2",)))
    assert tell(tmp_path, crew) == ["b1"]
    assert [job.id for job in JobJournal(tmp_path).unreported()] == ["b1"]


def test_a_job_of_one_who_is_gone_is_nobodys_and_so_is_a_former_leads(tmp_path, crew):
    begun(tmp_path, ("b1", "bob"), ("b2", "team-lead"), ("b3", "ada"))
    assert tell(tmp_path, crew, lead=False) == ["b3"]
    assert [job.id for job in JobJournal(tmp_path).unreported()] == ["b3"]


def test_a_namesake_that_was_born_after_the_job_is_not_told(tmp_path, crew, monkeypatch):
    monkeypatch.setattr("teamwright.agent.background_jobs.now_ms", lambda: now_ms() - 3_600_000)
    begun(tmp_path, ("b1", "ada"))
    assert tell(tmp_path, crew) == [] == JobJournal(tmp_path).unreported()


def test_what_the_session_itself_stopped_wakes_no_lead(tmp_path, crew):
    journal = begun(tmp_path, ("b1", "team-lead"))
    journal.record_end(Job("b1", "team-lead", "", tmp_path, 7, 0, state="stopped"))
    assert tell(tmp_path, crew) == ["b1"]
    assert (crew["team-lead"].woken, crew["team-lead"].beside) == ([], [("b1 stopped", "job-b1")])
