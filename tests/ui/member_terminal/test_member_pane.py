"""What a person sees and does at the terminal of a member that has a pane of its own."""

import asyncio
import contextlib
import json
import os
from typing import Any

import pytest

from teamwright import UnknownMember
from teamwright.protocol.events import MemberChanged, MessageSent, TurnEnded
from teamwright.testing.model_server_replies import Answer
from teamwright.ui.cli.reports import status_lines
from teamwright.ui.terminal.commands import HANDLERS
from teamwright.views.status import status_views
from tests.ui.member_terminal.panes import Pane, attached, crew, needs_tmux, pane_of
from tests.ui.subagents.play import Held, Play, agent

pytestmark = needs_tmux


def words(body: dict[str, Any]) -> str:
    return json.dumps(body["messages"], ensure_ascii=False)


@pytest.mark.promise("E2", "C10")
async def test_a_pane_says_who_it_is_shows_what_is_said_and_what_is_typed_reaches_the_member(tmp_path):
    def play(body: dict[str, Any]) -> str:
        return "The blue one." if "Which colour" in words(body) else "I have begun."

    async with crew(tmp_path, play) as (team, told, server):
        await team.spawn("ann", "Begin with the first file.")
        pane = await pane_of(team, told, "ann")
        await pane.sees("ann · team crew · anthropic/", "· default", "what you type goes to ann")
        await pane.sees("lead → ann: Begin with the first file.", "I have begun.")
        await pane.says("Which colour?")
        await pane.sees("you → ann: Which colour?", "The blue one.")
        assert "Which colour?" in words(server.bodies[-1])
        inbox = json.loads((tmp_path / "home/teams/crew/inboxes/ann.json").read_text())
        assert [one["from"] for one in inbox] == ["team-lead", "user"]
        for line in pane.text().splitlines():
            assert len(line.rstrip()) <= 80


@pytest.mark.slow
@pytest.mark.promise("E2")
async def test_keys_end_a_turn_and_never_the_process_and_stop_ends_it_once_it_was_meant(tmp_path):
    def play(body: dict[str, Any]) -> Answer | str:
        if "Wait there" in words(body) and "tool_result" not in words(body):
            return Answer("I wait.", tools=[("Bash", {"command": f"cat {tmp_path / 'gate'}", "description": "w"})])
        return "Back again."

    os.mkfifo(tmp_path / "gate")
    async with crew(tmp_path, play, permission_mode="bypassPermissions") as (team, told, _):
        await team.spawn("ann", "Wait there.")
        pane = await pane_of(team, told, "ann")
        await pane.sees("I wait.", "● ann working", "Bash cat")
        await pane.types("Escape")
        ended = await told.until(lambda event: isinstance(event, TurnEnded) and event.member == "ann")
        assert ended.stop == "interrupted"
        await pane.sees("its turn has ended: interrupted")
        await pane.types("C-c")
        await pane.sees("no turn of ann runs; /stop ends ann for good")
        await pane.says("And now?")
        await pane.sees("Back again.")
        await pane.says("/stop")
        await pane.sees("end ann for good? [y/n]")
        await pane.says("n")
        await pane.sees("ann stays")
        await pane.says("/stop")
        await pane.sees("ann stays", "end ann for good? [y/n]")
        await pane.says("y")
        gone = await told.until(lambda event: isinstance(event, MemberChanged) and event.state == "killed")
        assert gone.detail == "stopped by the user"


@pytest.mark.promise("E2")
@pytest.mark.slow
async def test_commands_show_one_member_and_change_its_mode_under_the_rules_of_the_lead(tmp_path):
    async with crew(tmp_path, lambda _body: "Done.") as (team, told, _):
        await team.spawn("ann", "Begin.")
        pane = await pane_of(team, told, "ann")
        await pane.sees("Done.")
        for line, *seen in (
            ("/help", "/compact KEEP", "Esc, Ctrl-C"),
            ("/context", "system prompt", "tools", "free"),
            ("/btw how far are you?", "Done."),
            ("/cost", "ann", "side question", "all"),
            ("/tasks", "no tasks"),
            ("/quit", "there is no /quit at a member's terminal"),
            ("# a note", "nothing was sent"),
            ("exit", "Ctrl-D again within"),
            ("/mode plan", "ann is in mode plan from its next call on"),
            ("/mode bypassPermissions", "bypassPermissions is not given while a session runs"),
            ("/mode sideways", "sideways"),
        ):
            await pane.says(line)
            await pane.sees(line, *seen)
        assert team.members[0].mode == "plan"


@pytest.mark.promise("F44", "E2")
@pytest.mark.slow
async def test_what_a_member_asks_is_answered_in_its_pane(tmp_path):
    def play(body: dict[str, Any]) -> Answer | str:
        if "tool_result" not in words(body):
            return Answer(tools=[("Bash", {"command": "touch made", "description": "makes it"})])
        return "It is made."

    async with crew(tmp_path, play) as (team, told, _):
        events = team.events()  # somebody is there who could answer
        looking = asyncio.ensure_future(anext(events))
        await team.spawn("ann", "Make it.")
        pane = await pane_of(team, told, "ann")
        await pane.sees("ann wants to use Bash", "touch made", "y yes")
        await pane.says("y")
        await pane.sees("It is made.")
        assert (tmp_path / "work/made").exists()
        await looking


@pytest.mark.slow
@pytest.mark.promise("E2")
async def test_words_and_what_is_typed_stay_whole_through_resizing_and_another_terminal(tmp_path):
    gate = asyncio.Event()

    async def play(body: dict[str, Any]) -> str:
        if "Go on" not in words(body):
            return "First."
        await gate.wait()
        return "\n".join(f"line {number} of the long answer" for number in range(40))

    async with crew(tmp_path, play) as (team, told, _):
        await team.spawn("ann", "Begin.")
        pane = await pane_of(team, told, "ann")
        await pane.sees("First.")
        await pane.says("Go on.")
        await pane.sees("● ann working")
        await pane.types("-l", "half a line")
        await pane.sees("> half a line")
        pane.tmux("resize-window", "-t", pane.id, "-x", "50", "-y", "12")
        gate.set()
        await pane.sees("line 39 of the long answer", "> half a line")
        with attached(pane, 100, 30) as client:
            client.sees("line 39 of the long answer")
            client.leaves()
        with attached(pane, 70, 20) as client:
            client.sees("half a line")
            client.leaves()
        await pane.types("-l", " and the rest")
        await pane.types("Enter")
        await pane.sees("you → ann: half a line and the rest")
        text = pane.text()
        for number in range(40):
            assert f"line {number} of the long answer" in text


@pytest.mark.slow
@pytest.mark.promise("E5", "E2")
async def test_where_members_live_is_told_and_their_panes_go_out_of_sight_and_come_back(tmp_path):
    async with crew(tmp_path, lambda _body: "Done.") as (team, told, _):
        await team.spawn("ann", "Begin.")
        await team.spawn("bob", "Begin.")
        pane = await pane_of(team, told, "ann")
        lines = await HANDLERS["/members"](team.session, "")
        assert any(f"tmux {pane.id}" in line for line in lines)
        assert any("attach" in line for line in lines)
        window = pane.tmux("display-message", "-p", "-t", pane.id, "#{window_id}")
        [said] = await HANDLERS["/hide"](team.session, "ann")
        assert said.strip() == f"ann is hidden (tmux {pane.id})"
        assert pane.tmux("display-message", "-p", "-t", pane.id, "#{window_id}") != window
        config = tmp_path / "home/teams/crew/config.json"
        assert json.loads(config.read_text())["hiddenPaneIds"] == [pane.id]
        view = status_views(team.session.agent_factory.home, tmp_path / "work", "crew")[0]
        [ann] = [one for one in view.members if one.name == "ann"]
        assert ann.place == f"tmux {pane.id}" and "attach" in ann.note
        assert any("runs in" in line for line in status_lines(view))
        await HANDLERS["/show"](team.session, "@ann")
        assert pane.tmux("display-message", "-p", "-t", pane.id, "#{window_id}") == window
        assert json.loads(config.read_text())["hiddenPaneIds"] == []
        await HANDLERS["/hide"](team.session, "ann")
        await team.stop("ann")
        assert json.loads(config.read_text())["hiddenPaneIds"] == [], "a pane that is gone is not hidden"
        with pytest.raises(UnknownMember):
            await HANDLERS["/hide"](team.session, "ann")


@pytest.mark.slow
@pytest.mark.promise("E2")
async def test_a_member_whose_terminal_is_closed_has_crashed_and_the_lead_is_told(tmp_path):
    async with crew(tmp_path, lambda _body: "Done.") as (team, told, _):
        await team.spawn("ann", "Begin.")
        pane = await pane_of(team, told, "ann")
        await pane.sees("Done.")
        pane.tmux("kill-pane", "-t", pane.id)
        gone = await told.until(lambda event: isinstance(event, MemberChanged) and event.state == "crashed")
        assert "its terminal was closed" in gone.detail
        note = await told.until(lambda event: isinstance(event, MessageSent) and event.wire == "teammate_terminated")
        assert note.to == "team-lead" and team.members == []
        config = tmp_path / "home/teams/crew/config.json"
        assert "ann" in [one["name"] for one in json.loads(config.read_text())["members"]], "it keeps its place"


@pytest.mark.promise("E2")
@pytest.mark.slow
async def test_a_dumb_terminal_gets_lines_and_no_colours(tmp_path):
    env = {"NO_COLOR": "1"}
    async with crew(tmp_path, lambda _body: "Plain words.", env=env) as (team, told, _):
        await team.spawn("ann", "Begin.")
        first = await pane_of(team, told, "ann")
        await first.sees("Plain words.")
        first.tmux("set-option", "-g", "default-terminal", "dumb")
        await team.spawn("bob", "Begin.")
        pane = await pane_of(team, told, "bob")
        await pane.sees("lead → bob: Begin.", "Plain words.")
        await pane.says("And more.")
        await pane.sees("you → bob: And more.", "Plain words.")
        await pane.types("C-c")
        await pane.sees("no turn of bob runs")
        assert "\x1b[3" not in pane.tmux("capture-pane", "-p", "-e", "-t", pane.id)
        assert "\x1b[3" not in first.tmux("capture-pane", "-p", "-e", "-t", first.id), "NO_COLOR"


@pytest.mark.promise("E2")
@pytest.mark.slow
def test_a_pane_says_that_its_lead_is_gone_and_how_long_the_member_stays(tmp_path):
    (tmp_path / "work").mkdir()
    play = Play([agent("JOB ann: begin.", name="ann"), (lead := Held())], ann=["I have begun."])
    with play.on(tmp_path / "work", tmp_path / "home") as program:
        running = program.start("-p", "go", "--backend", "tmux")
        try:
            lead.come()
            [config] = (tmp_path / "home").glob("teams/*/config.json")
            [life] = json.loads((config.parent / "team.json").read_text())["lives"].values()
            pane = Pane(life["place"]["facts"]["socket"], life["place"]["id"])
            [told] = play.results()
            assert f"place: tmux {pane.id} (see it with: tmux -S {pane.socket} attach)" in told
            asyncio.run(pane.sees("ann: begin.", "I have begun."))
            running.kill()
            running.wait()
            asyncio.run(pane.sees("the lead of ann is gone: ann stays 60 s", "its lead is gone"))
            asyncio.run(pane.says("/stop"))
            asyncio.run(pane.sees("end ann for good? [y/n]"))
            asyncio.run(pane.says("y"))
            asyncio.run(pane.sees("it cannot be ended for good"))
        finally:
            running.kill()
            with contextlib.suppress(AssertionError, UnboundLocalError):
                pane.tmux("kill-server")


@pytest.mark.promise("E2", "H9")
@pytest.mark.slow
async def test_below_the_line_stands_what_the_lead_shows_of_it_in_the_same_words_also_in_a_narrow_pane(tmp_path):
    def play(body: dict[str, Any]) -> Answer | str:
        if "Wait there" in words(body) and "tool_result" not in words(body):
            calls = [("TaskUpdate", {"taskId": "1", "status": "in_progress", "owner": "ann"})]
            return Answer(tools=[*calls, ("Bash", {"command": "cat gate", "description": "w"})])
        return "Back again."

    (tmp_path / "work").mkdir()
    os.mkfifo(tmp_path / "work/gate")
    async with crew(tmp_path, play, permission_mode="acceptEdits") as (team, told, _):
        await team.tasks.add("count the files")
        await team.spawn("ann", "Begin.")
        pane = await pane_of(team, told, "ann")
        await pane.sees("Back again.", "\n>", "acceptEdits · context 0% of", "· $0.0", "· 0/1 tasks")
        await pane.says("Wait there.")
        await pane.sees("● ann working  #1 Bash cat")
        await pane.types("C-t")
        await pane.sees("▸ #1 count the files  ann")
        pane.tmux("resize-window", "-t", pane.id, "-x", "27", "-y", "20")
        await pane.says("more")
        await pane.sees("● ann #1 Bash cat", "▸ #1", "0/1 tasks")
        shown = pane.tmux("capture-pane", "-p", "-t", pane.id).rstrip().splitlines()[-3:]
        assert all(len(row) < 27 for row in shown), shown
        with open(tmp_path / "work/gate", "w") as gate:
            gate.write("open\n")
        await pane.sees_no("ann #1 Bash cat")
