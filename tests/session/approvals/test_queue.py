"""The queue of requests: files that any process may answer, one answer each, deadlines, late ones, what is granted."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from teamwright import Notice, RequestClosed, RequestOpened, Team
from teamwright.approvals.answer_from_outside import AnswerOutcome, answer_request
from teamwright.approvals.request_files import open_requests
from teamwright.config.trust import TrustStore
from teamwright.permissions.verdict import PermissionAnswer
from teamwright.protocol.events import RequestAnswer
from teamwright.protocol.messages import text_block
from teamwright.requests.request_store import RequestStore
from teamwright.session.control.person_actions import stop_member
from teamwright.session.open_session import open_session
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel
from tests.support.waits import WAIT_S

TOUCH = ("Bash", {"command": "touch made"})
YES, NO = RequestAnswer(verdict="allow"), RequestAnswer(verdict="deny", text="not on a Friday")

ANSWERER = """
import json, sys
from teamwright.approvals.answer_from_outside import answer_request
from teamwright.protocol.events import RequestAnswer
from teamwright.storage.paths import find_home
out = answer_request(find_home(), sys.argv[1], RequestAnswer(**json.loads(sys.argv[2])))
print(out.kind, out.by)
"""


def elsewhere(id: str, **answer) -> tuple[str, str]:
    """Answer from a process of its own; what it was told."""
    done = subprocess.run(
        [sys.executable, "-c", ANSWERER, id, json.dumps(answer)],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=True,
    )
    kind, _, by = done.stdout.strip().partition(" ")
    return kind, by


class Asked:
    """Takes every request and leaves it to others; hands them out as they come."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[RequestOpened] = asyncio.Queue()

    def __call__(self, request: RequestOpened) -> None:
        self.queue.put_nowait(request)

    async def next(self) -> RequestOpened:
        return await self.queue.get()


def a_team(tmp_path: Path, model, **more) -> Team:
    (tmp_path / "work").mkdir(exist_ok=True)
    return Team("crew", model=model, cwd=tmp_path / "work", **more)


def settings(tmp_path: Path, **values) -> Path:
    path = tmp_path / "extra-settings.json"
    path.write_text(json.dumps(values))
    return path


class Events(list):
    """The events of a kind from now on."""

    def __init__(self, team: Team, kind: type) -> None:
        super().__init__()
        self._kind, self._came = kind, asyncio.Event()
        team.session.log.subscribe(self._take, live=False)

    def _take(self, _number: int, event: object) -> None:
        if isinstance(event, self._kind):
            self.append(event)
            self._came.set()

    async def until(self, fits):
        """The first that fits, once it is there."""
        while (found := next(filter(fits, self), None)) is None:
            self._came.clear()
            await self._came.wait()
        return found


def told(model: ScriptedModel, name: str = "team-lead") -> str:
    return "\n".join(
        item.decode() for request in model.requests if request.agent_name == name for item in request.items
    )


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("P4", "G4", "F44")
@pytest.mark.slow
async def test_every_request_is_a_file_that_another_process_answers_and_the_asker_is_woken(tmp_path):
    asked, model = Asked(), ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        run = team.run("Go.")
        event = await asked.next()
        [request] = open_requests(find_home())
        assert (request.id, request.kind, request.owner, request.tool) == (
            event.request,
            "permission",
            "team-lead",
            "Bash",
        )
        assert (request.what, request.input) == ("touch made", {"command": "touch made"})
        assert request.is_alive and request.pid == os.getpid()
        assert request.deadline == pytest.approx(request.opened_at + 600, abs=1)
        assert (request.box.stat().st_mode & 0o777, next(request.box.glob("*.json")).stat().st_mode & 0o777) == (
            0o700,
            0o600,
        )
        closed = Events(team, RequestClosed)
        tail = request.id.rpartition("-")[2]
        assert await asyncio.to_thread(elsewhere, tail, verdict="allow") == ("first", "another terminal")
        result = await run
        assert [(one.request, one.verdict, one.by) for one in closed] == [(request.id, "allow", "another terminal")]
        assert open_requests(find_home()) == []
        assert not list(request.box.glob("*.json")), "what is over is not looked at again"
    assert result.ok and not result.denials and (tmp_path / "work/made").exists()


@pytest.mark.promise("P4", "G4")
@pytest.mark.slow
async def test_without_a_team_the_files_lie_in_the_session_and_in_its_team_when_there_is_one(tmp_path):
    asked, model = Asked(), ScriptedModel({"lead": [TOUCH, "done"], "ada": [TOUCH, "done"]})
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        session = team.session
        await team.spawn("ada", "Go.")
        first = await asked.next()
        [request] = open_requests(find_home())
        assert request.team == session.team.name and request.box == session.team.requests.directory
        assert (request.owner, request.incarnation) == ("ada", 1)
        await first.allow()
    alone = replace(session.options, model=ScriptedModel([TOUCH, "done"]), on_request=(asked := Asked()))
    async with asyncio.timeout(WAIT_S), open_session(alone) as other:
        run = asyncio.ensure_future(other.run([text_block("Go.")]))
        event = await asked.next()
        [request] = [one for one in open_requests(find_home()) if one.session == other.id]
        assert (request.id, request.team, request.box.parent.name) == (event.request, "", other.id)
        assert (await asyncio.to_thread(elsewhere, request.id, verdict="deny", text="no"))[0] == "first"
        result = await run
    assert [one["rule"] for one in result.denials]


@pytest.mark.promise("P4", "F44", "G4")
@pytest.mark.slow
async def test_a_nested_request_says_whose_it_is_and_blocks_its_member(tmp_path):
    asked = Asked()

    def answer(request):
        if request.agent_name == "ada":
            call = {"description": "find it", "prompt": "Touch.", "subagent_type": "general-purpose"}
            return ("Agent", call) if len(request.items) == 1 else "found"
        if request.agent_name == "team-lead":
            return "ok"
        return TOUCH if len(request.items) == 1 else "touched"

    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel(answer), on_request=asked) as team:
        ada = await team.spawn("ada", "Go.")
        event = await asked.next()
        [request] = open_requests(find_home())
        assert (request.owner, request.asker) == ("ada", "ada › general-purpose: find it")
        assert (event.owner, event.member) == (request.owner, request.asker)
        assert ada.state == "blocked" and "touch made" in ada.waiting_on
        assert (await asyncio.to_thread(elsewhere, request.id, verdict="allow"))[0] == "first"
        await team.run("Wait for ada.")
    assert (tmp_path / "work/made").exists()


# ── one answer ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("P4", "G4")
@pytest.mark.slow
async def test_who_comes_late_is_told_who_was_first_and_it_is_noted_in_the_log(tmp_path):
    asked, model = Asked(), ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        run = team.run("Go.")
        event = await asked.next()
        notices = Events(team, Notice)
        assert await event.deny("not on a Friday")
        assert not await event.allow()
        await run
        assert await asyncio.to_thread(elsewhere, event.request, verdict="allow") == ("late", "program")
        await notices.until(lambda one: "late answer" in one.text and "another terminal" in one.text)
        late = answer_request(find_home(), event.request, YES)
        assert (late.kind, late.verdict, late.text) == ("late", "deny", "not on a Friday")
    assert not (tmp_path / "work/made").exists()


@pytest.mark.promise("P4", "G4")
async def test_an_unknown_id_is_told_with_the_nearest_and_two_that_begin_alike_are_both_named(tmp_path):
    asked = Asked()
    model = ScriptedModel({"lead": ["ok"] * 3, "ada": [TOUCH, "done"], "bob": [TOUCH, "done"]})
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        await team.spawn("ada", "Go.")
        await team.spawn("bob", "Go.")
        one, other = await asked.next(), await asked.next()
        assert answer_request(find_home(), one.request[:-1] + "?", YES).near == (one.request,)
        several = answer_request(find_home(), "perm-", YES)
        assert (several.kind, set(several.near)) == ("several", {one.request, other.request})
        assert answer_request(find_home(), "nothing like it", YES) == AnswerOutcome("unknown")
        assert answer_request(find_home(), "", YES).kind == "unknown"
        await one.deny()
        await other.deny()


@pytest.mark.promise("P4", "F44")
async def test_a_deadline_denies_with_its_reason_and_whoever_is_late_reads_that(tmp_path):
    asked, extra = Asked(), settings(tmp_path, ask_timeout_s=0.1)
    model = ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked, settings_file=extra) as team:
        result = await team.run("Go.")
        event = await asked.next()
        outcome = answer_request(find_home(), event.request, YES)
        assert (outcome.kind, outcome.by) == ("expired", "deadline")
    assert "no answer within 0.1 s" in told(model) and len(result.denials) == 1


@pytest.mark.promise("P4", "F44")
async def test_who_still_waits_takes_an_answer_though_the_clock_has_jumped_past_its_deadline(tmp_path):
    """As after a laptop slept: its process waits on, and nobody may be told that it is too late."""
    asked = Asked()
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel([TOUCH, "done"]), on_request=asked) as team:
        run = team.run("Go.")
        event = await asked.next()
        (file,) = (one.box / f"{one.id}.json" for one in open_requests(find_home()))
        file.write_text(json.dumps(json.loads(file.read_text()) | {"deadline": 1}))
        assert elsewhere(event.request, verdict="allow") == ("first", "another terminal")
        assert not (await run).denials
    assert (tmp_path / "work/made").exists()


@pytest.mark.promise("P4", "F44")
async def test_a_deadline_tells_the_member_and_once_the_lead(tmp_path):
    extra = settings(tmp_path, ask_timeout_s=0.1)
    model = ScriptedModel({"lead": ["ok"] * 5, "ada": [TOUCH, "I go on without."]})
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=Asked(), settings_file=extra) as team:
        await team.spawn("ada", "Go.")
        await team.run("Wait for ada.")
        inbox = json.loads(team.session.team.mailbox("team-lead").path.read_text())
        notes = [one for one in inbox if one["from"] == "system" and "perm-" in one["text"]]
    assert "no answer within 0.1 s" in told(model, "ada")
    assert len(notes) == 1
    assert "ada asked to run Bash" in notes[0]["text"] and "so it was denied" in notes[0]["text"]
    assert "so it was denied" in told(model)


@pytest.mark.promise("P4")
async def test_a_request_whose_asker_is_stopped_is_closed_and_nobody_can_answer_it(tmp_path):
    asked, model = Asked(), ScriptedModel({"lead": ["ok"] * 3, "ada": [TOUCH, "done"]})
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        await team.spawn("ada", "Go.")
        event = await asked.next()
        closed = Events(team, RequestClosed)
        await stop_member(team.session, "ada")
        assert [(one.request, one.by) for one in closed] == [(event.request, "cancelled")]
        assert open_requests(find_home()) == []
        assert answer_request(find_home(), event.request, YES).by == "cancelled"


async def test_who_only_prepares_an_answer_in_a_directory_of_another_life_answers_nobody(tmp_path):
    asked, model = Asked(), ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        run = team.run("Go.")
        event = await asked.next()
        [request] = open_requests(find_home())
        path = request.box / f"{request.id}.json"
        body = json.loads(path.read_text())
        body["lead"]["since"] = "1999-01-01T00:00:00.000Z"
        path.write_text(json.dumps(body))
        outcome = answer_request(find_home(), request.id, YES)
        assert outcome.kind == "gone" and outcome.request.resume == "teamwright resume crew"
        assert RequestStore(request.box).get_answer(request.id) is None
        await event.deny()
        await run


# ── before anybody is asked ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G4", "G7")
async def test_answerers_come_before_anybody_is_asked_and_one_that_breaks_decides_nothing(tmp_path):
    order: list[str] = []

    async def breaks(_question):
        order.append("breaks")
        raise LookupError("no such thing")

    async def passes(_question):
        order.append("passes")

    async def allows(question):
        order.append(question.what)
        return PermissionAnswer(True, "hook")

    model = ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model) as team:
        team.session.requests.answerers += [breaks, passes, allows]
        notices = Events(team, Notice)
        result = await team.run("Go.")
    assert order == ["breaks", "passes", "touch made"] and not result.denials
    assert ["LookupError" in one.text for one in notices] == [True]
    assert not list(find_home().own.glob("**/requests")), "nobody was asked, so there is no file"


@pytest.mark.promise("G4", "F44")
@pytest.mark.parametrize("how", ["deny", "wait"])
@pytest.mark.slow_after(1)
async def test_where_nobody_is_here_a_request_is_denied_at_once_or_waits_as_was_said(tmp_path, how):
    extra = settings(tmp_path, unattended_requests=how)
    model = ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, settings_file=extra) as team:
        opened = Events(team, RequestOpened)
        run = team.run("Go.")
        if how == "wait":
            event = await opened.until(bool)
            assert (await asyncio.to_thread(elsewhere, event.request, verdict="allow"))[0] == "first"
        result = await run
    assert (tmp_path / "work/made").exists() is (how == "wait")
    assert bool(result.denials) is (how == "deny") and bool(opened) is (how == "wait")


# ── another input, and grants ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G4", "C4")
@pytest.mark.slow
async def test_an_answer_may_change_the_call_and_the_model_is_told(tmp_path):
    asked, model = Asked(), ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        run = team.run("Go.")
        id = (await asked.next()).request
        given = {"command": "touch other"}
        assert (await asyncio.to_thread(elsewhere, id, verdict="allow", input=given))[0] == "first"
        await run
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["other"]
    assert "The user changed the input of this call before it ran" in told(model)


@pytest.mark.promise("G4", "F46")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"command": "rm made"}, "--disallowedTools"),
        ({"cmd": "touch other"}, "cannot run that way"),
    ],
)
async def test_a_changed_call_is_decided_on_anew_and_must_fit_the_tool(tmp_path, given, said):
    asked, model = Asked(), ScriptedModel([TOUCH, "done"])
    more = {"on_request": asked, "disallowed_tools": ["Bash(rm:*)"]}
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, **more) as team:
        run = team.run("Go.")
        await (await asked.next()).allow(input=given)
        result = await run
    assert len(result.denials) == 1 and said in told(model)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.promise("G4", "F46")
async def test_what_is_forbidden_while_a_request_waits_is_not_run_by_its_yes(tmp_path):
    asked, model = Asked(), ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        run = team.run("Go.")
        event = await asked.next()
        team.set_mode("plan")
        await event.allow()
        result = await run
    assert len(result.denials) == 1 and not (tmp_path / "work/made").exists()


@pytest.mark.promise("G4")
@pytest.mark.finding("U4")
@pytest.mark.slow
async def test_accepted_edits_of_one_member_hold_for_that_member_alone_and_for_the_session(tmp_path):
    asked = Asked()
    write = ("Write", {"file_path": "one.txt", "content": "1"})
    other = ("Write", {"file_path": "two.txt", "content": "2"})
    model = ScriptedModel(
        {
            "lead": ["ok"] * 8,
            "ada": [write, other, TOUCH, ("Bash", {"command": "touch more"}), "done", "ok", other, "done"],
            "ben": [("Write", {"file_path": "his.txt", "content": "3"}), "done"],
        }
    )
    notices: list[str] = []
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        await team.spawn("ada", "Go.")
        team.session.log.subscribe(
            lambda _n, event: notices.append(event.text) if isinstance(event, Notice) else None, live=False
        )
        first = await asked.next()
        assert {"type": "setMode", "mode": "acceptEdits", "destination": "session"} in first.suggestions
        await first.allow(updates=[{"type": "setMode", "mode": "acceptEdits", "destination": "session"}])
        result = await team.run("Wait for ada.")
        assert team.mode == "default" and {one.mode for one in team.members} == {"default"}
        assert asked.queue.empty() and not result.denials, "touch is an edit in that mode"
        await team.spawn("ben", "Go.")
        his = await asked.next()
        assert his.owner == "ben"
        await his.deny("not his")
        await team.run("Wait for ben.")
        [told] = [text for text in notices if "are not asked about" in text]
        assert told.startswith("edits of ada ") and "every other agent is asked as before" in told
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == ["made", "more", "one.txt", "two.txt"]


ACCEPTED = {"type": "setMode", "mode": "acceptEdits", "destination": "session"}


@pytest.mark.promise("G4")
@pytest.mark.parametrize("ended_by", ["a new member of that name", "a change of its mode"])
async def test_accepted_edits_end_with_the_member_and_with_its_mode(tmp_path, ended_by):
    asked = Asked()
    writes = [("Write", {"file_path": f"{name}.txt", "content": name}) for name in ("one", "two", "three")]
    model = ScriptedModel({"lead": ["ok"] * 8, "ada": [writes[0], writes[1], "done", writes[2], "done"]})
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        ada = await team.spawn("ada", "Go.")
        await (await asked.next()).allow(updates=[ACCEPTED])
        await team.run("Wait for ada.")
        assert asked.queue.empty() and (tmp_path / "work/two.txt").exists()
        if ended_by == "a change of its mode":
            await ada.set_mode("default")
            await ada.send("Go on.")
        else:
            await ada.stop()
            await team.spawn("ada", "Go.")
        third = await asked.next()
        assert third.owner == "ada" and third.tool == "Write"
        await third.deny("not that one")
        await team.run("Wait for ada.")
    assert not (tmp_path / "work/three.txt").exists()


RULE = {"type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": "date:*"}], "behavior": "allow"}


@pytest.mark.promise("G4")
@pytest.mark.parametrize("destination", ["localSettings", "projectSettings", "userSettings"])
@pytest.mark.slow_after(1)
async def test_what_is_granted_for_good_is_saved_beside_what_is_there_and_kept_out_of_git(tmp_path, destination):
    work = tmp_path / "work"
    work.mkdir()
    await asyncio.to_thread(subprocess.run, ["git", "init", "-q", str(work)], check=True)
    (work / ".teamwright").mkdir()
    local = work / ".teamwright/settings.local.json"
    local.write_text(json.dumps({"teams": True, "permissions": {"deny": ["Bash(rm:*)"]}}))
    asked, model = Asked(), ScriptedModel([("Bash", {"command": "date > when"}), "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        run = team.run("Go.")
        await (await asked.next()).allow(updates=[{**RULE, "destination": destination}])
        await run
    place = {
        "localSettings": local,
        "projectSettings": work / ".teamwright/settings.json",
        "userSettings": find_home().settings,
    }[destination]
    assert json.loads(place.read_text())["permissions"]["allow"] == ["Bash(date:*)"]
    kept = json.loads(local.read_text())
    assert (kept["teams"], kept["permissions"]["deny"]) == (True, ["Bash(rm:*)"])
    exclude = (work / ".git/info/exclude").read_text().splitlines()
    assert exclude.count("/.teamwright/settings.local.json") == (destination == "localSettings")
    assert not (work / ".gitignore").exists()


@pytest.mark.promise("G4", "P7")
@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.slow_after(1)
async def test_what_is_saved_in_a_trusted_repository_holds_next_time_elsewhere_it_is_said_when(tmp_path, trusted):
    work = tmp_path / "work"
    work.mkdir()
    if trusted:
        trust = TrustStore.load(find_home())
        trust.give(trust.verdict(work))
    make, chmod = ("Bash", {"command": "chmod +x made"}), {"toolName": "Bash", "ruleContent": "chmod:*"}
    asked = Asked()
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, ScriptedModel([make, "done"]), on_request=asked) as team:
        notices = Events(team, Notice)
        run = team.run("Go.")
        await (await asked.next()).allow(updates=[{**RULE, "rules": [chmod], "destination": "localSettings"}])
        await run
    assert any("takes effect when the repository is trusted" in one.text for one in notices) is not trusted
    again = ScriptedModel([make, ("Bash", {"command": "chown root made"}), "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, again) as team:
        result = await team.run("Go.")
    refused = [one["tool_input"]["command"] for one in result.denials]
    assert refused == ([] if trusted else ["chmod +x made"]) + ["chown root made"], "nothing else was widened"


@pytest.mark.promise("G4", "P7")
async def test_a_repository_cannot_lead_what_is_saved_to_another_place(tmp_path):
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    outside.mkdir()
    (work / ".teamwright").symlink_to(outside)
    asked, model = Asked(), ScriptedModel([TOUCH, "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        notices = Events(team, Notice)
        run = team.run("Go.")
        await (await asked.next()).allow(updates=[{**RULE, "destination": "localSettings"}])
        await run
    assert list(outside.iterdir()) == [] and any("leads out of the repository" in one.text for one in notices)
    assert (work / "made").exists(), "the call itself was allowed"


@pytest.mark.promise("G4")
@pytest.mark.parametrize(
    "update",
    [
        {"type": "setMode", "mode": "bypassPermissions", "destination": "session"},
        {"type": "addRules", "rules": [{"toolName": "Bash"}], "behavior": "allow", "destination": "userSettings"},
        {"type": "addDirectories", "directories": ["/"], "destination": "session"},
        {"type": "nothing known"},
    ],
)
@pytest.mark.slow_after(1)
async def test_what_reaches_too_far_is_not_granted_with_an_answer_nor_saved(tmp_path, update):
    asked = Asked()
    model = ScriptedModel([TOUCH, ("Bash", {"command": "chmod +x made"}), "done"])
    async with asyncio.timeout(WAIT_S), a_team(tmp_path, model, on_request=asked) as team:
        notices = Events(team, Notice)
        run = team.run("Go.")
        await (await asked.next()).allow(updates=[update])
        await (await asked.next()).deny("asked again")
        await run
    assert len([one for one in notices if "not granted" in one.text]) == 1
    assert not find_home().settings.exists()
