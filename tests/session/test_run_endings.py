"""Work that is open when a run in a session of its own ends: it is named, and the exit code is 5."""

import pytest

from teamwright import run
from teamwright.testing import ScriptedModel

BYPASS = {"permission_mode": "bypassPermissions"}
TASK = ("TaskCreate", {"subject": "ship it", "description": "Ship it.", "metadata": {"for": ["zed"]}})


def start(name: str) -> tuple[str, dict[str, str]]:
    return ("Agent", {"description": "work", "prompt": "Work.", "name": name})


class Breaking(ScriptedModel):
    """A lead and `bob` that follow their scripts, and `ada`, whose model breaks at work."""

    async def stream(self, request):
        if request.agent_name == "ada":
            raise RuntimeError("boom")
        async for part in super().stream(request):
            yield part


@pytest.mark.finding("T39")
@pytest.mark.promise("K11")
@pytest.mark.parametrize("has_task", [True, False])
def test_a_member_that_broke_at_work_is_cut_off_while_a_task_is_open(tmp_path, has_task):
    starts = [start("ada"), start("bob")]
    model = Breaking({"lead": [[TASK, *starts] if has_task else starts, *["Done."] * 5], "bob": ["Here I am."]})
    result = run("Go.", model=model, cwd=tmp_path, **BYPASS)
    expected = ("cut_off", 5, ("ada",)) if has_task else ("done", 0, ())
    assert (result.stop, result.exit_code, result.cut_off) == expected


@pytest.mark.finding("T39")
@pytest.mark.promise("K11")
def test_a_background_command_that_outlasts_the_run_is_cut_off(tmp_path):
    settings = tmp_path / "short.json"
    settings.write_text('{"agents": {"jobs_wait_s": 0.05}}')
    command = ("Bash", {"command": "exec sleep 300", "run_in_background": True})
    model = ScriptedModel([command, *["Done."] * 4])
    result = run("Go.", model=model, cwd=tmp_path, settings_file=settings, **BYPASS)
    assert (result.stop, result.exit_code) == ("cut_off", 5)
    [named] = result.cut_off
    assert "exec sleep 300" in named
