"""What confines a session is said by name: at the start, by `status`, in the terminal and by `doctor`."""

import json
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.sandbox import sandbox as sandbox_module
from teamwright.sandbox.policy import SandboxSettings
from teamwright.sandbox.sandbox import Implementation, report_sandbox
from teamwright.testing import ScriptedModel
from teamwright.ui.terminal.commands import HANDLERS
from tests.support.waits import wait_until
from tests.ui.program import Program

SAID = {
    "bubblewrap": ("bubblewrap: enforces reads, writes, network, sockets, processes", []),
    "landlock": ("landlock: enforces reads, network, sockets, processes; not writes", ["writes"]),
    "none": (
        "none: nothing is enforced: it is not there",
        ["reads", "writes", "network", "sockets", "processes"],
    ),
}


@pytest.mark.parametrize("name", SAID)
@pytest.mark.slow_after(1)
async def test_status_says_which_implementation_holds_the_session_and_what_it_does_not_hold(
    tmp_path, monkeypatch, name
):
    found = Implementation(name, landlock=7, reason="it is not there")
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: found)
    (tmp_path / "work").mkdir()
    text, missing = SAID[name]
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto"}
    async with Team("crew", model=ScriptedModel("Done."), **options) as team:
        await team.spawn("ann", "Wait.")
        [file] = wait_for(tmp_path, "sandbox.json")
        program = Program(tmp_path / "work", tmp_path / "state")
        shown = program.run("status").stdout
        assert f"\nsandbox  {text}\n" in shown
        state = json.loads(program.run("status", "crew", "--json").stdout)["sandbox"]
        assert (state["implementation"], state["missing"]) == (name, missing)
        lines = await HANDLERS["/status"](team.session, "")
        assert f"  sandbox {text}" in lines
        for limit in state["limits"]:
            assert limit in " ".join(shown.split()) and f"    {limit}" in lines
        assert bool(state["limits"]) is (name != "none")
    assert file.exists() and '"sandbox": null' in program.run("status", "crew", "--json").stdout


def wait_for(tmp_path: Path, name: str) -> list[Path]:
    """Return the files of this name below the state, once there is one."""
    found: list[Path] = []

    def is_there() -> bool:
        found[:] = (tmp_path / "state").rglob(name)
        return bool(found)

    wait_until(is_there, name)
    return found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("bubblewrap", []),
        ("landlock", ["the sandbox (landlock) does not enforce all: writes: protected paths inside a writable"]),
        ("none", ["commands run without a sandbox: it is not there"]),
    ],
)
async def test_a_session_says_at_its_start_what_is_not_enforced(tmp_path, monkeypatch, name, said):
    found = Implementation(name, landlock=7, reason="it is not there")
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: found)
    (tmp_path / "work").mkdir()
    options = {"cwd": tmp_path / "work", "home": tmp_path / "state", "sandbox": "auto"}
    async with Team("crew", model=ScriptedModel("Done."), **options) as team:
        await team.run("Say hello.")
    [log] = (tmp_path / "state").rglob("events.jsonl")
    events = map(json.loads, log.read_text().splitlines())
    warned = [event["text"] for event in events if event["type"] == "notice" and event["level"] == "warning"]
    assert len(warned) == len(said) and all(text.startswith(one) for text, one in zip(warned, said, strict=True))


def test_doctor_uses_the_words_of_status(tmp_path):
    program = Program(tmp_path, tmp_path / "state", env={"TEAMWRIGHT_SANDBOX": ""})
    text = " ".join(program.run("doctor", "--json").stdout.split())
    assert report_sandbox(SandboxSettings()).summary in text
