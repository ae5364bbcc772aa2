"""Where the commands of the documents are given: a checkout with a finished team, and a team at work.

Everything is real but the model, which a server on loopback plays by what it is asked, and the tools of `make test`,
which write down that they were called.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pexpect

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.docs.pages import ROOT
from tests.support.waits import WAIT_S

KEY = "sk-test-7Qm2xLw9Tz4Rk8Vn"
TEAM, MEMBER, DONE = "review", "tests", "That is all there is to say."
_GIT = ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
_AGENT = "---\nname: code-reviewer\ndescription: 'Review a change: find risks.'\n---\nReview it.\n"


@dataclass
class Done:
    """How a command ended, and what it wrote to stdout and stderr."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"


@dataclass
class Place:
    """A directory in which a shell runs commands. `before` sees each one first; `show_borders` are its exports."""

    directory: Path
    env: dict[str, str]
    person: bool = False
    live: subprocess.Popen[str] | None = None
    set_up: list[str] = field(default_factory=list)

    def give(self, command: str) -> Done:
        """Run a command to its end."""
        if command.startswith(("export ", "cd ")):
            self.set_up.append(command.replace("…", KEY))
        line = "\n".join([*self.set_up, command.replace("…", KEY)])
        if self.person:
            return self._at_terminal(line)
        if self.live and " resume " in command:
            self._end_the_team()
        if "--watch" in command:
            return self._watched(line)
        done = subprocess.run(
            ["bash", "-e", "-c", line],
            cwd=self.directory,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def _end_the_team(self) -> None:
        assert self.live
        self.live.terminate()
        assert self.live.wait(WAIT_S) == 143

    def _watched(self, line: str) -> Done:
        """It goes on until somebody has seen enough: the first line, and Ctrl-C."""
        child = subprocess.Popen(
            ["bash", "-c", line],
            cwd=self.directory,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_a_group_that_heeds_signals,
        )
        assert child.stdout
        first = child.stdout.readline()
        os.killpg(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=WAIT_S)
        assert child.returncode == 130, err
        return Done(0, first + out, err)

    def _at_terminal(self, line: str) -> Done:
        """A person trusts the checkout for once, reads the answer, if a prompt was given, and leaves with Ctrl-D."""
        env = {**self.env, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        child = pexpect.spawn(
            "bash", ["-e", "-c", line], cwd=str(self.directory), env=env, encoding="utf-8", timeout=WAIT_S
        )
        shown = ""
        try:
            while found := child.expect([pexpect.EOF, r"trust them\?.*: ", "/help"]):
                shown += child.before + child.after
                if found == 1:
                    child.send("o\r")
                    continue
                if '"' in line:
                    child.expect_exact(DONE.split()[-1])
                    shown += child.before + child.after
                child.send("\x04")
            shown += child.before
        finally:
            child.close(force=True)
        return Done(child.exitstatus if child.exitstatus is not None else -1, shown, "")


def _a_group_that_heeds_signals() -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def play(body: dict) -> Answer | str:
    """The model of every agent here, from its request alone."""
    system = str(body.get("system", ""))
    said = str([m["content"] for m in body.get("messages", []) if m["role"] == "user"])
    made = str([m["content"] for m in body.get("messages", []) if m["role"] == "assistant"])
    if re.search(r"# You are \w+, a teammate", system) or "Lead the team" not in said:
        return DONE
    if "TeamCreate" not in made:
        return Answer(tools=[("TeamCreate", {"team_name": TEAM, "description": "looks at a change"})])
    if "TaskCreate" not in made:
        return Answer(tools=[("TaskCreate", {"subject": "Look at the tests", "description": "All of them."})])
    if "Agent" not in made:
        start = {"description": "start it", "prompt": "You look.", "name": MEMBER, "subagent_type": "general-purpose"}
        return Answer(tools=[("Agent", start)])
    if "and push" in said and "git push" not in made:
        return Answer(tools=[("Bash", {"command": "git push origin main", "description": "push"})])
    return DONE


def checkout(directory: Path) -> Path:
    """A small repository with our Makefile, whose environment is made of recorders."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        directory.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        directory.joinpath(name).write_text((ROOT / name).read_text())
    (directory / "src").mkdir()
    (directory / "src" / "main.py").write_text("print('hello')\n")
    (directory / ".claude" / "agents").mkdir(parents=True)
    (directory / ".claude" / "agents" / "review.md").write_text(_AGENT)
    (directory / ".gitignore").write_text(".venv\n*.md\n")
    subprocess.run(["git", "init", "-q", "-b", "main", "."], cwd=directory, check=True)
    subprocess.run([*_GIT, "add", "-A"], cwd=directory, check=True)
    subprocess.run([*_GIT, "commit", "-q", "-m", "begin"], cwd=directory, check=True)
    tools = directory / ".venv" / "bin"
    tools.mkdir(parents=True)
    _script(tools / "teamwright", f'exec {sys.executable} -m teamwright "$@"')
    for name in ("python", "ruff", "pyright", "pip"):
        _script(tools / name, f'echo "{name} $*" >> {directory}/.venv/called')
    for name in (".runtime", ".dev", ".npm"):
        (directory / ".venv" / name).touch()
    return directory


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def environment(directory: Path, home: Path, url: str) -> dict[str, str]:
    """What a person's shell has: our program on the PATH, keys, a home."""
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "CI", "TMUX", "TMUX_PANE"}}
    return kept | {
        "PATH": f"{directory / '.venv' / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "TEAMWRIGHT_HOME": str(home / ".teamwright"),
        "ANTHROPIC_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "OPENAI_BASE_URL": f"{url}/v1",
    }


@contextmanager
def quiet(tmp: Path) -> Iterator[Place]:
    """A checkout in which a team was at work and has finished."""
    directory = checkout(tmp / "project")
    with LoopbackModel.in_thread(play) as server:
        place = Place(directory, environment(directory, tmp / "home", server.url))
        made = place.give('teamwright -p "Lead the team."')
        assert made.code == 0, made
        yield place


@contextmanager
def at_work(tmp: Path) -> Iterator[Place]:
    """The same while the team works: its lead waits for an answer, a member is idle."""
    directory = checkout(tmp / "project")
    with LoopbackModel.in_thread(play) as server:
        env = environment(directory, tmp / "home", server.url)
        live = subprocess.Popen(
            ["teamwright", "-p", "Lead the team, and push.", "--ask", "wait"],
            cwd=directory,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        place = Place(directory, env, live=live)
        try:
            asked = place.give("teamwright requests --wait 50s")
            assert asked.code == 0, asked
            yield place
        finally:
            with contextlib.suppress(ProcessLookupError):
                live.kill()
            live.wait()


PLACES = {"": quiet, "at a terminal": quiet, "while a team works": at_work}
