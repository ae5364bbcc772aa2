"""Test a team with a scripted model: no key and no network are needed, and everything except the model is real.

    python -m pytest examples/test_review_team.py

`ScriptedModel` gives each agent the answers that the test defines, and records the requests.
"""

import asyncio
from pathlib import Path

from teamwright import Model, Result, Team, ToolCalled
from teamwright.testing import ScriptedModel


async def review(model: Model, directory: Path) -> Result:
    """Run a team with one reviewer that may change no file: the program under test."""
    async with Team("review", model=model, cwd=directory, permission_mode="dontAsk") as team:
        await team.spawn("reviewer", "Read notes.txt and report what is wrong with it.")
        return await team.run("Wait for the reviewer, then sum up in one line.")


def test_the_reviewer_reads_the_file_and_its_report_reaches_the_lead(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("teh end\n")
    model = ScriptedModel(
        {
            "reviewer": [("Read", {"file_path": "notes.txt"}), "Line 1: teh should be the."],
            "lead": ["I wait for the reviewer.", "I still wait.", "One typo in notes.txt."],
        }
    )
    result = asyncio.run(review(model, tmp_path))
    assert result.ok
    asked = {request.agent_name: b"".join(request.items).decode() for request in model.requests}
    assert "teh end" in asked["reviewer"]
    assert "teh should be the" in asked["team-lead"]


def test_a_reviewer_that_wants_to_write_is_refused_and_the_result_says_so(tmp_path: Path) -> None:
    model = ScriptedModel({"reviewer": [("Write", {"file_path": "notes.txt", "content": "the end"}), "I could not."]})
    outcomes: list[str] = []

    async def watched() -> Result:
        async with Team("review", model=model, cwd=tmp_path) as team:
            feed = team.events(answers=False)
            await team.spawn("reviewer", "Correct notes.txt.")
            async for _, event in feed:
                if isinstance(event, ToolCalled):
                    outcomes.append(event.outcome)
                    break
            run = team.run("Go on.")
            run.cancel("the test has seen enough")
            return await run

    result = asyncio.run(watched())
    assert outcomes == ["denied"]
    assert [(denial["member"], denial["tool_name"]) for denial in result.denials] == [("reviewer", "Write")]
    assert not (tmp_path / "notes.txt").exists()
