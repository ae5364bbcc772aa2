"""What another process does to inboxes: mail that it brings is told, mail of ours that it destroys is told too."""

import asyncio
import json

import pytest

from teamwright import MessageDelivered, MessageSent, Notice
from teamwright.teams.outgoing_mail import send_text
from teamwright.testing import ScriptedModel
from tests.teams.crew import Holding, a_team, until
from tests.teams.watched import Told, a_stranger


def inbox_of(team, name):
    return team.session.team.home.inbox(team.session.team.directory, name)


def was_sent(model, name: str, words: str) -> bool:
    """Whether the agent of this name was ever sent these words."""
    return any(words in item.decode() for r in model.requests if r.agent_name == name for item in r.items)


@pytest.mark.promise("C3", "P3", "F67")
async def test_a_strangers_mail_is_told_once_with_its_type_and_ours_never_again(tmp_path):
    model = ScriptedModel(lambda _request: "ok")
    async with a_team(tmp_path, model) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        await team.send("ann", "from here")
        await stranger.letter(inbox_of(team, "ann"), **{"from": "bob", "text": "from there", "summary": "a word"})
        sent = await heard.one(MessageSent, member="bob")
        assert (sent.to, sent.summary, sent.wire) == ("ann", "a word", "")
        await heard.until(
            lambda: any(sent.message_id in e.message_ids for e in heard.of(MessageDelivered, member="ann"))
        )
        body = {"type": "task_completed", "from": "bob", "taskId": "9", "timestamp": "2026-01-01T00:00:00.000Z"}
        await stranger.letter(inbox_of(team, "ann"), **{"from": "bob", "text": json.dumps(body)})
        await heard.one(MessageSent, member="bob", wire="task_completed")
        await heard.until(lambda: len(heard.of(MessageDelivered, member="ann")) >= 3)
        ids = [e.message_id for e in heard.of(MessageSent)]
        assert len(ids) == len(set(ids))
        assert len(heard.of(MessageSent, to="ann", member="user")) == 1
        seen = {i for e in heard.of(MessageDelivered, member="ann") for i in e.message_ids}
        assert {e.message_id for e in heard.of(MessageSent, to="ann")} <= seen | {first_of(team, "ann")}


def first_of(team, name) -> str:
    return json.loads(inbox_of(team, name).read_bytes())[0]["msg_id"]


@pytest.mark.promise("C3", "P3")
async def test_a_busy_member_has_not_read_it_yet_and_the_mail_is_told_all_the_same(tmp_path):
    model = Holding(lambda _request: "ok", "ann")
    async with a_team(tmp_path, model) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        await model.thinking.wait()
        await stranger.letter(inbox_of(team, "ann"), **{"from": "bob", "text": "are you there?"})
        sent = await heard.one(MessageSent, member="bob")
        assert not was_sent(model, "ann", "are you there?")
        model.go.set()
        await heard.until(
            lambda: any(sent.message_id in e.message_ids for e in heard.of(MessageDelivered, member="ann"))
        )
        assert len(heard.of(MessageSent, member="bob")) == 1


@pytest.mark.promise("P1", "F02")
@pytest.mark.parametrize("harm", ["remove", "empty", "flag"])
@pytest.mark.slow_after(1)
async def test_mail_that_a_stranger_destroys_before_it_was_seen_is_told_to_its_sender_and_logged(tmp_path, harm):
    model = Holding(lambda _request: "ok", "ann")
    async with a_team(tmp_path, model) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        await team.spawn("ben", "Work.")
        await model.thinking.wait()
        await until(team, lambda: team.session.team.find("ben").is_resting)
        await send_text(team.session.team, "ben", "ann", "the tests are red", "red tests")
        await heard.one(MessageSent, member="ben", to="ann")
        if harm == "remove":
            await stranger.remove(inbox_of(team, "ann"))
        elif harm == "empty":
            await stranger.write(inbox_of(team, "ann"), "[]")
        else:
            await stranger.flag(inbox_of(team, "ann"))
        notice = await heard.one(Notice, member="ben", level="warning")
        assert "red tests" in notice.text and "ann" in notice.text
        await until(team, lambda: was_sent(model, "ben", "red tests"))
        model.go.set()
        assert len(heard.of(Notice, level="warning")) == 1
        assert not was_sent(model, "ann", "the tests are red")


@pytest.mark.promise("P1", "C9")
async def test_mail_that_was_seen_may_go_without_a_word(tmp_path):
    model = ScriptedModel(lambda _request: "ok")
    async with a_team(tmp_path, model) as team, a_stranger() as stranger:
        heard = Told(team)
        await team.spawn("ann", "Work.")
        await team.send("ann", "one")
        await until(team, lambda: was_sent(model, "ann", "one") and team.session.team.is_quiet())
        await stranger.remove(inbox_of(team, "ann"))
        await stranger.letter(inbox_of(team, "ann"), **{"from": "bob", "text": "two"})
        await heard.one(MessageSent, member="bob")
        assert not heard.of(Notice, level="warning")


@pytest.mark.promise("C3", "P3")
async def test_many_letters_of_our_own_are_each_told_once_whoever_reads_meanwhile(tmp_path):
    model = ScriptedModel(lambda _request: "ok")
    async with a_team(tmp_path, model) as team, a_stranger() as stranger:
        heard = Told(team)
        for name in ("ann", "ben"):
            await team.spawn(name, "Work.")
        sends = [send_text(team.session.team, "ann", "ben", f"letter {n}") for n in range(15)]
        sends += [team.send("ann", f"word {n}") for n in range(30)]
        await asyncio.gather(*sends)
        await until(team, lambda: team.session.team.is_quiet())
        await stranger.letter(inbox_of(team, "ben"), **{"from": "bob", "text": "the last"})
        await heard.one(MessageSent, member="bob")
        ids = [e.message_id for e in heard.of(MessageSent)]
        assert len(ids) == len(set(ids))
        assert not heard.of(Notice, level="warning")
