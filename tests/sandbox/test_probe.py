"""The probe of the sandbox: a system without room for another process is not a system without a sandbox."""

import resource
import subprocess
from functools import cache

import pytest

from teamwright.sandbox import sandbox as sandbox_module
from teamwright.sandbox.command_policy import ConfinementRequest
from teamwright.sandbox.policy import PolicyName, SandboxSettings
from teamwright.sandbox.probe_run import NoRoomError, runs_under
from teamwright.sandbox.sandbox import Sandbox, find_implementation


@pytest.fixture
def unprobed(monkeypatch):
    monkeypatch.setattr(sandbox_module, "_probe_once", cache(sandbox_module.probe_implementation))


@pytest.mark.usefixtures("unprobed")
def test_a_probe_without_room_is_repeated_and_no_command_runs_until_then(confined):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    sandbox = Sandbox(SandboxSettings(), confined.place)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, before[1]))
    try:
        found, answers = find_implementation(), sandbox.answers()
        with pytest.raises(OSError, match="no sandbox: it could not be tried"):
            sandbox.confine(ConfinementRequest(PolicyName.WORK, (confined.work,)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert found.name == "none" and "Too many open files" in found.reason and not answers
    again = find_implementation()
    assert "could not be tried" not in again.reason and find_implementation() is again


class Failing:
    """A confinement whose program fails with a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def start(self, start):
        return subprocess.Popen(["sh", "-c", f"echo '{self.text}' >&2; exit 1"], stderr=start.stderr)


def test_the_text_of_a_failed_program_tells_lack_of_room_from_lack_of_a_right():
    with pytest.raises(NoRoomError, match="Resource temporarily unavailable"):
        runs_under(Failing("bwrap: Creating new namespace failed: Resource temporarily unavailable"))
    assert not runs_under(Failing("bwrap: No permissions to create new namespace"))
