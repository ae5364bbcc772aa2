"""A launch goes over a private socket to whoever stands in a terminal; who leaves takes the offer back."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from teamwright.backends.handover import LaunchFailed, offer_launch
from tests.support.waits import WAIT_S


async def started(argv, **more):
    return await asyncio.create_subprocess_exec(*argv, stdin=asyncio.subprocess.DEVNULL, **more)


@pytest.mark.promise("F35", "F66")
async def test_the_socket_is_private_and_gone_afterwards(programs):
    async with offer_launch(programs.launch(env={"KEY": "secret"})) as handover:
        address = Path(handover.argv[-1])
        assert stat.S_IMODE(address.parent.stat().st_mode) == 0o700
        assert not any("secret" in word for word in handover.argv)
        process = await started(handover.argv)
        assert (await handover.deliver(WAIT_S))[0] == process.pid
        assert (await programs.report()).told["env"]["KEY"] == "secret"
        process.kill()
        await process.wait()
    assert not address.parent.exists()


@pytest.mark.promise("F27")
async def test_a_starter_that_is_given_nothing_ends_without_a_word(programs):
    async with offer_launch(programs.launch()) as handover:
        process = await started(handover.argv, stderr=asyncio.subprocess.PIPE)
        with pytest.raises(LaunchFailed, match="within 0 seconds"):
            await handover.deliver(0)
    async with asyncio.timeout(WAIT_S):
        assert await process.communicate() == (None, b"")
    assert process.returncode == 0
    late = await started(handover.argv, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(WAIT_S):
        assert await late.communicate() == (None, b"")


@pytest.mark.promise("F35")
async def test_an_interpreter_setting_of_the_terminal_does_not_reach_the_starter(programs, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('taken over')\n")
    async with offer_launch(programs.launch()) as handover:
        environ = {"PYTHONPATH": str(tmp_path), "PYTHONSTARTUP": "/nonexistent", "TMUX_PANE": "%7", "LC_ALL": "C"}
        process = await started(handover.argv, cwd=tmp_path, env=environ)
        await handover.deliver(WAIT_S)
        assert (await programs.report()).told["env"]["TMUX_PANE"] == "%7"
        process.kill()
        await process.wait()


async def test_a_long_temporary_directory_is_no_hindrance(programs, tmp_path, monkeypatch):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    async with offer_launch(programs.launch()) as handover:
        assert len(os.fsencode(handover.argv[-1])) <= 100
        assert not list(deep.iterdir())
