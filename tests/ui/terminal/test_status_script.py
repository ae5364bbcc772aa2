"""The status line script: the person's own rows from the state of the session, after trust, within limits."""

import asyncio
import json
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.testing import ScriptedModel
from teamwright.ui.terminal.status_script import StatusScript, make_status_script, status_input
from tests.support.waits import WAIT_S

pytestmark = [pytest.mark.finding("C2"), pytest.mark.promise("row F8", "row L5")]


def crew(root: Path, command: str, **more) -> Team:
    settings = root / "settings.json"
    settings.write_text(json.dumps({"statusLine": {"type": "command", "command": command, **more}}))
    return Team("crew", model=ScriptedModel(["Done."]), cwd=root, settings_file=settings)


async def shown(script: StatusScript, redrawn: asyncio.Event) -> list[str]:
    """The rows after the next change of them."""
    async with asyncio.timeout(WAIT_S):
        await redrawn.wait()
    redrawn.clear()
    return script.lines(40)


async def test_the_script_gets_the_state_as_json_and_its_rows_are_shown_after_each_turn(tmp_path):
    runs = tmp_path / "runs"
    command = f"cat > {tmp_path}/input.json; echo x >> {runs}; printf '\\033[31mrun\\033[0m '; wc -l < {runs}"
    redrawn = asyncio.Event()
    async with crew(tmp_path, command, padding=2) as team:
        script = make_status_script(team.session, str, redrawn.set)
        assert script is not None
        script.begin()
        try:
            assert await shown(script, redrawn) == ["  run 1"]
            unsubscribe = team.session.log.subscribe(lambda _number, event: script.note(event))
            result = await team.run("Do it.")
            assert (await shown(script, redrawn))[0] != "  run 1"
            unsubscribe()
        finally:
            script.end()
        said = json.loads((tmp_path / "input.json").read_text())
        assert said["session_id"] == result.session_id and said["model"]["display_name"] == "scripted"
        assert said["workspace"] == {"current_dir": str(tmp_path), "project_dir": str(tmp_path), "added_dirs": []}
        assert said["cost"]["total_cost_usd"] == 0.0 and said["context_window"]["context_window_size"] > 0
        assert set(said) == set(status_input(team.session, 1.0))


@pytest.mark.parametrize("command", ["exit 3", "echo out; exit 1", "true"])
async def test_a_script_that_fails_shows_nothing(tmp_path, command):
    async with crew(tmp_path, f"{command}") as team:
        script = make_status_script(team.session, str, lambda: None)
        assert script is not None and await script.read_rows() == ()


async def test_rows_are_bounded_and_carry_no_control_characters(tmp_path):
    async with crew(
        tmp_path, "for n in 1 2 3 4 5; do printf 'row %s \\007\\033]0;title\\007%0100d\\n' $n 0; done"
    ) as team:
        script = make_status_script(team.session, str, lambda: None)
        assert script is not None
        script.rows = await script.read_rows()
        assert len(script.rows) == 3 and all(len(row) == 40 for row in script.lines(40))
        assert "\x07" not in "".join(script.rows) and "title" not in "".join(script.rows)
