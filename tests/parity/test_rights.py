"""What a member may do, and who says so: the same in the lead's process and in one of its own."""

import asyncio
import json
import re

import pytest

from teamwright import ModeChanged, Notice
from tests.parity.house import Hold, House, call, house, write

pytestmark = pytest.mark.slow_after(1)

PERM = re.compile(r"perm-\d+-[a-z0-9]{7}")


def bash(command: str):
    return call("Bash", command=command)


MAKE = bash("touch made")


def answered(crew: House, name: str = "ann") -> list[str]:
    return [result.split("\n", 1)[0] for result in crew.results(name)]


# ── the one queue ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G4", "P4")
async def test_a_call_that_is_asked_about_waits_in_the_one_queue_and_runs_on_a_yes(tmp_path, backend):
    async with house(tmp_path, backend, {"ann": [write("made")]}) as crew:
        member = await crew.spawn("ann")
        request = await crew.request()
        assert (request.member, request.owner, request.kind, request.tool) == ("ann", "ann", "permission", "Write")
        assert request.always == "Edit(/made) (for every agent, until this session ends)"
        assert [one["type"] for one in request.suggestions] == ["setMode"]
        assert request.deadline > request.at
        await crew.until(lambda: member.state == "blocked")
        assert member.waiting_on == "permission for made"
        assert await request.allow()
        await crew.asked("ann", 2)
        await crew.quiet()
    assert (crew.work / "made").read_text() == "x"
    assert crew.closed() == [("ann", "allow", "program")]


@pytest.mark.promise("G4", "P4")
async def test_a_denial_reaches_the_model_with_its_reason_and_the_report_of_the_run(tmp_path, backend):
    async with house(tmp_path, backend, {"ann": [write("made")], "lead": ["wait"]}) as crew:
        await crew.spawn("ann")
        await (await crew.request()).deny("not on a Friday")
        await crew.asked("ann", 2)
        await crew.quiet()
        result = await crew.team.run("And?")
    assert answered(crew) == ["This call was not allowed: not on a Friday (mode default)."]
    assert [(d["member"], d["tool_name"], d["tool_input"]) for d in result.denials] == [
        ("ann", "Write", {"file_path": "made", "content": "x"})
    ]


@pytest.mark.promise("G4")
async def test_another_input_runs_in_the_place_of_what_was_asked_for_and_the_model_reads_that(tmp_path, backend):
    async with house(tmp_path, backend, {"ann": [write("made")]}) as crew:
        await crew.spawn("ann")
        await (await crew.request()).allow(input={"file_path": "other", "content": "y"})
        await crew.asked("ann", 2)
    assert (crew.work / "other").read_text() == "y" and not (crew.work / "made").exists()
    assert "changed the input of this call" in crew.results("ann")[0]


@pytest.mark.promise("G4", "P4")
async def test_a_request_that_nobody_answers_is_denied_at_its_deadline_and_a_late_yes_is_told(tmp_path, backend):
    given = {"ann": [write("made"), Hold("tried")], "lead": []}
    async with house(tmp_path, backend, given, settings={"ask_timeout_s": 1}) as crew:
        await crew.spawn("ann")
        request = await crew.request()
        await crew.asked("ann", 2)
        assert "no answer within 1 s" in crew.results("ann")[0]
        assert not await request.allow()
        given["ann"][1].go()
        await crew.until(lambda: "too late" in crew.said_to("ann"))
        await crew.quiet()
        lead_mail = [one["text"] for one in crew.mail("team-lead") if one["from"] == "system"]
    assert crew.closed() == [("ann", "deny", "deadline")]
    assert any("no answer within 1 s, so it was denied" in text for text in lead_mail)
    assert not (crew.work / "made").exists()


@pytest.mark.promise("G4")
async def test_requests_of_several_members_wait_side_by_side_and_each_has_its_own_answer(tmp_path, backend):
    async with house(tmp_path, backend, {"ann": [write("a")], "bob": [write("b")]}) as crew:
        await asyncio.gather(crew.spawn("ann"), crew.spawn("bob"))
        both = {one.member: one for one in (await crew.request(), await crew.request())}
        await both["bob"].deny("no")
        await both["ann"].allow()
        await crew.asked("ann", 2)
        await crew.asked("bob", 2)
    assert (crew.work / "a").exists() and not (crew.work / "b").exists()


@pytest.mark.promise("G4", "F46")
async def test_a_member_that_is_stopped_takes_its_request_along(tmp_path, backend):
    async with house(tmp_path, backend, {"ann": [write("made")]}) as crew:
        await crew.spawn("ann")
        request = await crew.request()
        await crew.team.stop("ann")
        await crew.until(lambda: crew.closed())
        assert not await request.allow()
    assert crew.closed() == [("ann", "deny", "cancelled")]


# ── what is granted along with a yes ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G2", "G4", "F45")
async def test_always_holds_for_the_member_at_its_next_call_for_others_and_for_the_lead(tmp_path, backend):
    given = {"ann": [MAKE, MAKE], "bob": [Hold(MAKE)], "lead": [MAKE]}
    async with house(tmp_path, backend, given) as crew:
        await crew.spawn("bob")
        await given["bob"][0].come()
        await crew.spawn("ann")
        request = await crew.request()
        assert request.always.startswith("Bash(touch made)")
        await request.allow(always=True)
        await crew.asked("ann", 3)
        await crew.quiet_of("ann")
        given["bob"][0].go()
        await crew.asked("bob", 2)
        await crew.team.run("And you?")
        ran = [*crew.results("ann"), *crew.results("bob"), *crew.results("lead")]
    assert [one.member for one in crew.requests] == ["ann"]
    assert len(ran) == 4 and not any("not allowed" in one for one in ran)


@pytest.mark.promise("G2", "G4", "F45")
async def test_always_that_is_said_to_the_lead_holds_for_members_that_live_and_for_new_ones(tmp_path, backend):
    given = {"ann": [Hold(MAKE)], "bob": [MAKE], "lead": [MAKE]}
    async with house(tmp_path, backend, given) as crew:
        await crew.spawn("ann")
        await given["ann"][0].come()
        run = crew.team.run("Go.")
        await (await crew.request()).allow(always=True)
        given["ann"][0].go()
        await run
        await crew.spawn("bob")
        await crew.asked("bob", 2)
        ran = [*crew.results("ann"), *crew.results("bob"), *crew.results("lead")]
    assert [one.member for one in crew.requests] == ["team-lead"]
    assert len(ran) == 3 and not any("not allowed" in one for one in ran)


@pytest.mark.promise("G4", "G1")
@pytest.mark.parametrize("mode", [None, "default"])
async def test_edits_that_are_granted_to_a_member_are_accepted_for_it_alone_and_no_mode_changes(
    tmp_path, backend, mode
):
    given = {"ann": [write("one"), write("two")], "lead": [write("three")]}
    async with house(tmp_path, backend, given) as crew:
        member = await crew.spawn("ann", mode=mode)
        await (await crew.request()).allow(
            updates=[{"type": "setMode", "mode": "acceptEdits", "destination": "session"}]
        )
        await crew.asked("ann", 3)
        await crew.quiet()
        assert (crew.team.mode, member.mode) == ("default", "default")
        run = crew.team.run("You, too.")
        await (await crew.request()).allow()
        await run
    assert [one.member for one in crew.requests] == ["ann", "team-lead"]
    assert {path.name for path in crew.work.iterdir()} == {"one", "two", "three"}


@pytest.mark.promise("G4", "G2")
@pytest.mark.parametrize("mode", [None, "acceptEdits"])
async def test_directories_and_rules_that_are_granted_hold_for_everybody_from_the_next_call_on(tmp_path, backend, mode):
    far = tmp_path / "far"
    far.mkdir()
    given = {"ann": [write(str(far / "a")), write(str(far / "b")), bash("touch c")],
             "bob": [Hold(write(str(far / "d")))]}  # fmt: skip
    # The directory may be below /tmp, where a sandbox has the session's files, which ask no question.
    async with house(tmp_path, backend, given, permission_mode="acceptEdits", sandbox="off") as crew:
        await crew.spawn("bob", mode=mode)
        await given["bob"][0].come()
        await crew.spawn("ann", mode=mode)
        await (await crew.request()).allow(
            updates=[
                {"type": "addDirectories", "directories": [str(far)], "destination": "session"},
                {
                    "type": "addRules",
                    "rules": [{"toolName": "Bash", "ruleContent": "touch:*"}],
                    "behavior": "allow",
                    "destination": "session",
                },
            ]
        )
        await crew.asked("ann", 4)
        await crew.quiet_of("ann")
        given["bob"][0].go()
        await crew.asked("bob", 2)
    assert len(crew.requests) == 1
    assert {path.name for path in far.iterdir()} == {"a", "b", "d"} and (crew.work / "c").exists()


# ── modes ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("G1", "G3", "F46")
async def test_a_member_follows_its_leads_mode_from_its_very_next_call_on(tmp_path, backend):
    given = {"ann": [Hold(write("one")), Hold(write("two")), Hold(write("three"))]}
    async with house(tmp_path, backend, given) as crew:
        member = await crew.spawn("ann")
        for number, mode in enumerate(("acceptEdits", "dontAsk", "plan")):
            await given["ann"][number].come()
            crew.team.set_mode(mode)
            assert member.mode == mode
            given["ann"][number].go()
        await crew.asked("ann", 4)
        one, two, three = crew.results("ann")
    assert not crew.requests and "Created" in one
    assert "dontAsk" in two and "still in plan mode" in three
    assert {path.name for path in crew.work.iterdir()} == {"one"}


@pytest.mark.promise("G1", "G3", "F46")
async def test_a_members_own_mode_is_set_kept_told_and_never_exceeds_the_leads(tmp_path, backend):
    given = {"ann": [Hold(write("one")), Hold(write("two")), "idle", "told"]}
    async with house(tmp_path, backend, given, permission_mode="acceptEdits") as crew:
        member = await crew.spawn("ann")
        await given["ann"][0].come()
        done = await member.set_mode("dontAsk")
        assert (str(done.before), str(done.mode), done.held_by, member.mode) == ("bubble", "dontAsk", None, "dontAsk")
        assert crew.roster()["ann"]["mode"] == "dontAsk"
        given["ann"][0].go()
        await given["ann"][1].come()
        assert "dontAsk" in crew.results("ann")[0]
        crew.team.set_mode("default")
        done = await member.set_mode("acceptEdits")
        assert done.held_by == "default"
        given["ann"][1].go()
        await (await crew.request()).deny("the lead's mode decides")
        await crew.asked("ann", 3)
        await crew.quiet()
        told = [json.loads(one["text"]) for one in crew.mail("ann") if '"mode_changed"' in one["text"]]
    assert [(one["from"], one["mode"]) for one in told] == [("user", "dontAsk"), ("user", "acceptEdits")]
    changed = [(one.mode, one.by) for one in crew.of(ModeChanged) if one.member == "ann"]
    assert changed == [("dontAsk", "user"), ("acceptEdits", "user")]
    assert not list(crew.work.iterdir())


@pytest.mark.promise("G1", "G3")
async def test_bypass_is_never_above_the_leads(tmp_path, backend):
    given = {"ann": [Hold(write("one"))], "bob": [write("two")]}
    async with house(tmp_path, backend, given, permission_mode="bypassPermissions") as crew:
        member = await crew.spawn("ann", mode="bypassPermissions")
        await given["ann"][0].come()
        crew.team.set_mode("default")
        given["ann"][0].go()
        await (await crew.request()).deny("no")
        assert member.mode == "bypassPermissions"
        await crew.asked("ann", 2)
        assert not (crew.work / "one").exists()
        crew.team.set_mode("bypassPermissions")
        await crew.spawn("bob")
        await crew.asked("bob", 2)
    assert (crew.work / "two").exists()


@pytest.mark.promise("G3", "F46")
async def test_fences_of_roles_and_deny_rules_hold(tmp_path, backend):
    (tmp_path / "work/.teamwright").mkdir(parents=True)
    (tmp_path / "work/.teamwright/team.toml").write_text('[roles.writer]\nwrites = ["docs/**"]\n')
    given = {"ann": [write("docs/a"), write("src/b"), bash("git push")]}
    more = {"permission_mode": "bypassPermissions", "disallowed_tools": ["Bash(git push:*)"], "trust": True}
    async with house(tmp_path, backend, given, **more) as crew:
        await crew.spawn("ann", agent_type="writer")
        await (await crew.request()).deny("no")
        await crew.asked("ann", 4)
        one, two, three = crew.results("ann")
    assert "Created" in one and "not allowed" in two and "git push" in three
    assert not (crew.work / "src").exists()


@pytest.mark.promise("G3")
async def test_a_kind_of_agent_that_only_reads_writes_nothing_whatever_the_mode(tmp_path, backend):
    given = {"ann": [bash("touch made"), bash("ls")]}
    async with house(tmp_path, backend, given, permission_mode="bypassPermissions") as crew:
        await crew.spawn("ann", agent_type="Explore")
        await crew.asked("ann", 3)
        one, two = crew.results("ann")
    assert "this agent type only reads" in one and "not allowed" not in two
    assert not list(crew.work.iterdir())


@pytest.mark.promise("G1", "G4")
@pytest.mark.parametrize("lead_mode", ["default", "bypassPermissions"])
async def test_a_member_in_delegate_asks_its_lead_by_the_same_two_messages(tmp_path, backend, lead_mode):
    """A lead that may not allow it is told who waits; one that may answers, and both messages lie in the files."""

    def answer(body):
        found = PERM.findall(json.dumps(body["messages"]))
        said = {"type": "permission_response", "request_id": found[-1], "approve": True}
        return call("SendMessage", to="ann", message=said)

    given = {"ann": [bash("install /dev/null made")], "lead": [Hold(), "waiting"]}
    given["lead"][0] = answer if lead_mode == "bypassPermissions" else "I wait."
    async with house(tmp_path, backend, given, permission_mode=lead_mode) as crew:
        await crew.spawn("ann", mode="delegate")
        request = await crew.request()
        if lead_mode == "default":
            await crew.until(lambda: any("You cannot allow it" in one["text"] for one in crew.mail("team-lead")))
            await request.allow()
        await crew.team.run("Wait for ann.")
        await crew.asked("ann", 2)
        await crew.quiet()
        asked = [json.loads(one["text"]) for one in crew.mail("team-lead") if '"permission_request"' in one["text"]]
        given_back = [json.loads(one["text"]) for one in crew.mail("ann") if '"permission_response"' in one["text"]]
    assert (crew.work / "made").exists()
    if lead_mode == "default":
        assert not asked and not given_back and crew.closed() == [("ann", "allow", "program")]
        return
    assert [(one["agent_id"], one["tool_name"], one["input"]["command"]) for one in asked] == [
        ("ann", "Bash", "install /dev/null made")
    ]
    assert [(one["request_id"], one["subtype"]) for one in given_back] == [(request.request, "success")]
    assert crew.closed() == [("ann", "allow", "lead")]


@pytest.mark.promise("G4")
async def test_a_question_of_a_member_is_answered_with_words(tmp_path, backend):
    asked = call("AskUserQuestion", questions=[{"question": "Which branch?", "options": ["main", "next"]}])
    async with house(tmp_path, backend, {"ann": [asked]}) as crew:
        await crew.spawn("ann")
        request = await crew.request()
        assert (request.kind, request.what, request.options) == ("question", "Which branch?", ("main", "next"))
        await request.answer("next")
        await crew.asked("ann", 2)
    assert "→ next" in crew.results("ann")[0]


@pytest.mark.promise("G4", "G1")
async def test_what_cannot_be_granted_is_told_and_the_yes_counts(tmp_path, backend):
    async with house(tmp_path, backend, {"ann": [write("made")]}) as crew:
        await crew.spawn("ann")
        await (await crew.request()).allow(
            updates=[{"type": "setMode", "mode": "bypassPermissions", "destination": "session"}]
        )
        await crew.asked("ann", 2)
    assert (crew.work / "made").exists() and crew.team_mode == "default"
    assert any("not granted" in one.text for one in crew.of(Notice))
