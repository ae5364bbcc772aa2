"""Each tutorial is followed literally from an empty directory: files are saved, commands run, output is compared.

`<!-- step -->` stands above commands that are run, `<!-- save NAME -->` above a file, and `<!-- prints -->` above lines
that the step before must have printed.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.docs.pages import Block, blocks
from tests.docs.places import environment
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S

TUTORIALS = sorted({block.page for block in blocks() if block.remark("step") == ""})


def lead_a_team(body: dict) -> Answer | str:
    """Answer as a lead that starts one teammate and reports what the teammate said."""
    messages = str(body.get("messages", ""))
    if teammate_of(body):
        return "The oldest file is flags.md."
    if "The oldest file is" in messages:
        return "The oldest file is flags.md, says reader."
    if '"name": "Agent"' in messages or "'name': 'Agent'" in messages:
        return "I wait for reader."
    return Answer(tools=[("Agent", {"name": "reader", "description": "read", "prompt": "Which file is the oldest?"})])


def follow(page: Path, directory: Path, env: dict[str, str]) -> None:
    """Do what the page says, in order. Each step continues in the directory of the step before."""
    here, output = directory, ""
    for block in (block for block in blocks() if block.page == page):
        name = block.remark("save")
        if name:
            (here / name).write_text(block.text)
        elif block.remark("prints") is not None:
            for line in block.text.splitlines():
                assert line in output, f"{block.id}: {line!r} was not printed:\n{output}"
        elif block.remark("step") is not None:
            here, output = step(block, here, env)


def step(block: Block, here: Path, env: dict[str, str]) -> tuple[Path, str]:
    """Run the commands of a block. Return the directory in which they ended, and what they printed."""
    script = f"set -e\n{block.text}\nprintf '\\n%s' \"$PWD\" > {env['HOME']}/directory"
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=here,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    expected = block.exit_code
    assert done.returncode == expected, f"{block.id}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    ended = Path(env["HOME"], "directory")
    return Path(ended.read_text().strip()) if ended.exists() else here, done.stdout + done.stderr


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
@pytest.mark.slow_after(1)
def test_a_tutorial_works_as_it_is_written(page: Path, tmp_path: Path):
    directory, home = tmp_path / "work", tmp_path / "home"
    directory.mkdir()
    home.mkdir()
    tools = directory / ".venv" / "bin"
    tools.mkdir(parents=True)
    for name, command in {"teamwright": f"{sys.executable} -m teamwright", "python": sys.executable}.items():
        (tools / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (tools / name).chmod(0o755)
    with LoopbackModel.in_thread(lead_a_team) as server:
        follow(page, directory, environment(directory, home, server.url))
