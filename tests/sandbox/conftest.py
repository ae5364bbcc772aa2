"""A project, a home with secrets, and commands that run in a policy of the sandbox."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from teamwright.processes.commands import ProcessStart
from teamwright.sandbox import sandbox as sandbox_module
from teamwright.sandbox.bubblewrap import probe_bubblewrap
from teamwright.sandbox.command_needs import NO_NEEDS, CommandNeeds
from teamwright.sandbox.command_policy import ConfinementRequest, SandboxPaths
from teamwright.sandbox.landlock import probe_landlock
from teamwright.sandbox.policy import NetworkAccess, PolicyName, SandboxSettings
from teamwright.sandbox.sandbox import Implementation, Sandbox
from tests.support.programs import require
from tests.support.waits import WAIT_S


class Confined:
    """A project and a home, with commands that run confined."""

    def __init__(self, directory: Path) -> None:
        self.home, self.work, self.state = directory / "home", directory / "work", directory / "state"
        for path in (self.home / ".ssh", self.home / ".cache", self.work / ".git/hooks", self.state / "output"):
            path.mkdir(parents=True)
        (self.home / ".ssh/id_ed25519").write_text("PRIVATE-KEY")
        (self.home / "notes.txt").write_text("NOTES")
        (self.state / "inbox.json").write_text("MAIL")
        (self.state / "output/c1.output").write_text("OUTPUT")
        (self.work / ".git/config").write_text("[core]\n\tbare = false\n")
        (self.work / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (self.work / ".git/objects").mkdir()
        (self.work / ".git/refs").mkdir()
        (self.work / "a.txt").write_text("A\n")
        self.env = {**os.environ, "HOME": str(self.home), "PATH": os.environ["PATH"]}
        self.place = SandboxPaths(
            str(self.home), (str(self.state),), (str(self.state / "output"),), str(self.state / "tmp"), self.env
        )

    def run(
        self,
        policy: PolicyName,
        command: str,
        *,
        needs: CommandNeeds = NO_NEEDS,
        denied: Sequence[str] = (),
        settings: SandboxSettings | None = None,
        own_files: tuple[str, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run a shell line in this policy; return its exit code and its output."""
        sandbox = Sandbox(settings or SandboxSettings(network=NetworkAccess.DENY), self.place)
        request = ConfinementRequest(policy, (self.work,), needs, denied=denied, own_files=own_files)
        confinement = sandbox.confine(request)
        assert confinement is not None, sandbox.implementation().reason
        reading, writing = os.pipe()
        argv = ("bash", "-c", command)
        child = confinement.start(ProcessStart(argv, self.work, self.env, subprocess.DEVNULL, writing, writing))
        os.close(writing)
        with os.fdopen(reading, encoding="utf-8", errors="replace") as output:
            text = output.read()
        code = child.wait(WAIT_S) if isinstance(child, subprocess.Popen) else child.wait()
        return subprocess.CompletedProcess(argv, code, text)

    def read(self, command: str, **more) -> subprocess.CompletedProcess[str]:
        """Run a line in the policy *read*."""
        return self.run(PolicyName.READ, command, **more)

    def work_in(self, command: str, **more) -> subprocess.CompletedProcess[str]:
        """Run a line in the policy *work*."""
        return self.run(PolicyName.WORK, command, **more)


@pytest.fixture
def confined(tmp_path) -> Confined:
    return Confined(tmp_path)


def found(name: str) -> Implementation:
    if name == "bubblewrap":
        abilities = probe_bubblewrap(require("bwrap"))
        return Implementation("bubblewrap", abilities) if abilities else pytest.skip("bubblewrap does not work here")
    version = probe_landlock()
    return Implementation("landlock", landlock=version) if version else pytest.skip("Landlock does not work here")


@pytest.fixture
def bubblewrap(monkeypatch):
    use(monkeypatch, "bubblewrap")


@pytest.fixture
def landlock(monkeypatch):
    use(monkeypatch, "landlock")


def use(monkeypatch, name: str) -> None:
    implementation = found(name)
    monkeypatch.setattr(sandbox_module, "find_implementation", lambda: implementation)


@pytest.fixture(params=["bubblewrap", "landlock"])
def each_implementation(monkeypatch, request) -> str:
    """Each implementation that works here, in the place of the best one."""
    use(monkeypatch, request.param)
    return request.param
