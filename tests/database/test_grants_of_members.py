"""An approval of a person reaches the sandbox of a member on another machine."""

import asyncio
import shutil
import tempfile
from pathlib import Path

import pytest

from teamwright import RequestOpened
from teamwright.protocol.messages import text_block
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from tests.database.spaces import make_space
from tests.database.workers import Machine
from tests.support.repositories import make_repository
from tests.support.waits import WAIT_S

SCRIPT = r"""
[script]
name = "grants"

[[agent.lead.turn]]
say = "Ada copies."
[[agent.lead.turn.call]]
tool = "Agent"
input = {{ name = "ada", description = "copy", prompt = "Copy it.", isolation = "remote" }}

[[agent.ada.turn]]
[[agent.ada.turn.call]]
tool = "Bash"
input = {{ command = "cp a.txt {0}/c.txt" }}
[[agent.ada.turn.call]]
tool = "Bash"
input = {{ command = "python3 again.py" }}

[[agent."*".otherwise]]
say = "Done."
"""


@pytest.mark.slow
@pytest.mark.finding("3S1")
@pytest.mark.parametrize("key", ["y", "d"])
async def test_an_approval_reaches_the_sandbox_on_another_machine(tmp_path, postgres, own_home, request, key):
    space = await make_space(postgres.new_space())
    out = Path(tempfile.mkdtemp(prefix="teamwright-", dir="/var/tmp"))  # commands have another /tmp
    request.addfinalizer(lambda: shutil.rmtree(out, ignore_errors=True))
    program = f"for name in ('again',):\n    open('/'.join(('{out.parent}', '{out.name}', name)), 'w')\n"
    repository = make_repository(tmp_path / "repository", {"a.txt": "allowed\n", "again.py": program})
    script = tmp_path / "grants.toml"
    script.write_text(SCRIPT.format(out))

    async def answer(asked: RequestOpened) -> None:
        updates = [one for one in asked.suggestions if one["type"] == "addDirectories"] if key == "d" else []
        assert bool(updates) == (key == "d"), asked
        await asked.allow(updates=updates)

    machine = Machine(tmp_path, space, "gpu1", "--label", "gpu", "--slots", "2")
    options = Options(
        cwd=repository,
        model=f"scripted:{script}",
        database=space,
        backend="remote:gpu",
        on_request=answer,
        sandbox="auto",
        allowed_tools=("Bash(python3 again.py)",),
    )
    try:
        async with asyncio.timeout(3 * WAIT_S), open_session(options) as session:
            await session.run([text_block("Go.")])
            directories = session.agent_factory.policy.directories
    finally:
        await asyncio.to_thread(machine.end)
    assert (out / "c.txt").read_text() == "allowed\n", machine.log.read_text()
    assert (out / "again").exists() == (key == "d")
    assert out not in directories, "the lead's machine has another directory of this name"
