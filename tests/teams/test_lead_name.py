"""The lead has one name on each surface: `team-lead` on disk and wire, `lead` in what a model or a person reads."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from teamwright import Team
from teamwright.protocol.events import ToolCalled
from teamwright.testing import Call, ScriptedModel
from teamwright.ui.cli.root import root


@pytest.mark.finding("3S11")
async def test_each_surface_has_one_spelling(tmp_path):
    stop = {"to": "ADA@crew", "message": {"type": "shutdown_request"}, "summary": "s"}
    model = ScriptedModel(
        {
            "team-lead": [Call("TeamCreate", {"team_name": "crew"}), Call("SendMessage", stop), "Done."],
            "ada": [
                Call("SendMessage", {"to": "*", "message": "hi", "summary": "s"}),
                Call("SendMessage", {"to": "team-lead", "message": "hi", "summary": "s"}),
                *["k"] * 5,
            ],
            "bob": ["k"] * 5,
        }
    )
    called = []
    async with Team("crew", model=model, cwd=tmp_path, env={}) as team:
        team.session.log.subscribe(lambda _n, event: called.append(event) if isinstance(event, ToolCalled) else None)
        await team.spawn("bob", "Wait.")
        await team.spawn("ada", "Say hi.")
        await team.run("Go.")
        config = json.loads(Path(team.session.team.roster.document.place).read_text())
    assert config["leadAgentId"] == "team-lead@crew"
    read = [event.output for event in called]
    assert len(read) == 4 and not [text for text in read if "team-lead" in text]
    assert any('"lead_agent_id": "lead@crew"' in text for text in read)
    broadcast = next(json.loads(text) for text in read if "recipients" in text)
    assert broadcast["recipients"] == list(broadcast["msg_ids"]) and "lead" in broadcast["recipients"]
    assert re.search(r"members: lead, bob\.|members: bob, lead\.", broadcast["message"])
    facts = {event.tool: event.facts for event in called if event.member == "ada" and "recipients" in event.facts}
    assert "team-lead" in facts["SendMessage"]["msg_ids"], "programs read what is on the wire"
    stopped = next(json.loads(text) for text in read if "was asked to stop" in text)
    assert stopped["target"] == "ada" and stopped["message"].startswith("ada was asked")


@pytest.mark.finding("3S11")
async def test_a_task_of_the_lead_names_it_as_every_other_text_does(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    reads = [Call("TaskList", {}), Call("TaskGet", {"taskId": "1"}), Call("ListAgents", {})]
    model = ScriptedModel(
        {
            "team-lead": [
                [Call("TaskCreate", {"subject": "look", "description": "d"})],
                [Call("TaskUpdate", {"taskId": "1", "owner": "lead"}), *reads],
                "Done.",
            ],
            "ada": [Call("TaskUpdate", {"taskId": "1", "status": "in_progress"}), *reads, "Done."],
        }
    )
    called = []
    async with Team("crew", model=model, cwd=tmp_path, home=tmp_path / "state", env={}) as team:
        team.session.log.subscribe(lambda _n, event: called.append(event) if isinstance(event, ToolCalled) else None)
        await team.run("Go.")
        await team.spawn("ada", "Look.")
        await team.wait_idle()
    read = [event.output for event in called]
    assert len(read) == 9 and not [text for text in read if "team-lead" in text], read
    assert {event.outcome for event in called if "belongs to lead" in event.output} == {"failed"}
    for command in ("tasks", "status"):
        shown = CliRunner().invoke(root, ["--home", str(tmp_path / "state"), command, "crew"])
        assert "look" in shown.output and "lead" in shown.output, shown.output
        assert "team-lead" not in shown.output, shown.output
