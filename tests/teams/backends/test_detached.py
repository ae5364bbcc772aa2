"""Members as processes of their own: without a terminal, with a file for what they write, outliving their lead."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.backends.detached import DetachedBackend
from teamwright.processes.pid_watch import WatchedProcess
from teamwright.processes.process_tree import process_start
from teamwright.protocol.errors import CannotStart
from teamwright.teams.backend import Location
from tests.support.waits import WAIT_S

LEAD = """
import asyncio, json, sys
from pathlib import Path
from teamwright.backends.detached import DetachedBackend
from teamwright.teams.backend import Launch

async def lead(folder, argv):
    launch = Launch("ada", "docs", "7f3a", tuple(argv), {"PATH": "/bin"}, Path("/"))
    spot = await DetachedBackend(Path(folder)).open(launch)
    print(json.dumps(spot.to_json()), flush=True)
    await asyncio.Event().wait()

asyncio.run(lead(sys.argv[1], sys.argv[2:]))
"""


@pytest.fixture
async def place(tmp_path):
    return DetachedBackend(tmp_path / "members", end_s=0.3)


def logs(place_folder):
    return sorted(place_folder.glob("*")) if place_folder.exists() else []


def started_by_a_lead_that_is_killed(folder, argv):
    lead = subprocess.Popen(
        [sys.executable, "-c", LEAD, str(folder), *argv], stdout=subprocess.PIPE, start_new_session=True
    )
    with lead:
        location = Location.from_json(json.loads(lead.stdout.readline()))
        os.killpg(lead.pid, signal.SIGKILL)
    return location


def children():
    """Numbers of our children, those that were not reaped included."""
    found = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    return {number for some in found for number in some}


@pytest.mark.promise("E4", "F30", "F34", "F35")
async def test_arguments_environment_and_directory_arrive_byte_for_byte(place, programs, tmp_path):
    words = ["a b", "it's", "$HOME", ";", "é🚀", "", "-n", "line\nbreak", "\udcff"]
    env = {"KEY": "sk-1; rm 'x'\n", "EMPTY": "", "BYTES": "\udcff", "PATH": "/bin"}
    env |= {"TERM": "xterm", "TMUX": "/s,1,0", "STY": "1.lead", "WEZTERM_PANE": "3"}  # of the lead's terminal
    cwd = tmp_path / "a 'dir';"
    cwd.mkdir()
    location = await place.open(programs.launch("ada", *words, env=env, cwd=cwd))
    told = (await programs.report()).told
    assert [word.encode("latin-1") for word in told["argv"]] == [os.fsencode(word) for word in words]
    assert told["cwd"].encode("latin-1") == os.fsencode(cwd)
    got = {key: value.encode("latin-1") for key, value in told["env"].items() if key != "LC_CTYPE"}
    assert got == {key: os.fsencode(env[key]) for key in ("KEY", "EMPTY", "BYTES", "PATH")}
    assert (location.kind, location.id) == ("detached", str(told["pid"]))
    assert os.getsid(told["pid"]) == told["pid"] != os.getsid(0)
    assert {os.readlink(f"/proc/{told['pid']}/fd/{number}") for number in (0, 1, 2)} == {
        "/dev/null",
        location.facts["log"],
    }
    await place.close(location)


@pytest.mark.promise("E4", "F66")
async def test_what_it_writes_is_in_a_private_file_and_is_its_last_words(place, programs, tmp_path):
    location = await place.open(programs.launch("ada"))
    log = Path(location.facts["log"])
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    assert str(log) in location.note
    report = await programs.report()
    await report.tell("fail")
    async with asyncio.timeout(WAIT_S):
        await place.wait_until_ended(location)
    assert not await place.is_alive(location)
    words = await place.last_output(location)
    assert words.splitlines()[0] in {"ended with status 3", "ready"}
    assert "the key is not accepted" in words
    assert "the key is not accepted" in await DetachedBackend(tmp_path).last_output(
        Location.from_json(location.to_json())
    )
    await place.close(location)
    assert await place.last_output(Location("detached", "1")) == ""


@pytest.mark.promise("E4", "P3")
async def test_it_outlives_the_kill_of_its_lead_and_another_process_ends_it(programs, tmp_path):
    launch = programs.launch()
    location = await asyncio.to_thread(started_by_a_lead_that_is_killed, tmp_path / "members", launch.argv)
    report = await programs.report()
    later = DetachedBackend(tmp_path / "members", end_s=0.3)
    assert await later.is_alive(location)
    assert await report.tell("ignore") == "ignoring"  # it is well, and will not go by itself
    await later.close(location)
    assert not await later.is_alive(location)
    assert not process_start(report.told["pid"])


@pytest.mark.promise("E4", "F21")
async def test_closing_ends_all_that_came_out_of_it_also_when_it_ended_before(place, programs, tmp_path):
    fifo, child = tmp_path / "pid", tmp_path / "child"
    os.mkfifo(fifo)
    child.write_text(f"trap '' TERM HUP; sleep 1000 & echo $! > {fifo}; wait")
    for first in ("wait", "exit 0"):
        location = await place.open(programs.launch(argv=("/bin/sh", "-c", f"sh {child} & {first}")))
        async with asyncio.timeout(WAIT_S):
            pid = int(await asyncio.to_thread(fifo.read_text))
            if first != "wait":
                await place.wait_until_ended(location)
        assert process_start(pid)
        await place.close(location)
        assert not process_start(pid)
        await place.close(location)


@pytest.mark.promise("E4", "F20")
async def test_a_number_that_somebody_else_has_now_is_neither_alive_nor_ended(place, stranger):
    location = Location("detached", str(stranger.pid), {"pid": str(stranger.pid), "start": "1", "log": ""})
    assert not await place.is_alive(location)
    await place.close(location)
    assert stranger.poll() is None


@pytest.mark.promise("E4", "F27")
@pytest.mark.parametrize(
    ("argv", "cwd", "why"),
    [
        (("/nonexistent/agent",), "/", "No such file or directory: /nonexistent/agent"),
        (("/etc/passwd",), "/", "Permission denied: /etc/passwd"),
        (("/bin/true",), "/nonexistent/dir", "No such file or directory: /nonexistent/dir"),
        (("agent",), "/", "the program has no absolute path"),
        (("/bin/echo", "a\0b"), "/", "null byte"),
    ],
)
async def test_a_program_that_cannot_be_started_is_an_error_and_leaves_nothing(
    place, programs, tmp_path, argv, cwd, why
):
    before = children()
    with pytest.raises(CannotStart, match="ada could not be started as a separate process") as raised:
        await place.open(programs.launch(argv=argv, cwd=Path(cwd)))
    assert (raised.value.slug, why in raised.value.what) == ("backend", True)
    assert logs(tmp_path / "members") == []
    assert children() == before


@pytest.mark.promise("E4", "F27")
async def test_a_folder_that_cannot_be_made_is_an_error(programs, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match="there is no file for its output"):
        await DetachedBackend(tmp_path / "file" / "members").open(programs.launch())


@pytest.mark.promise("E4", "F27")
@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5, 8, 20])
async def test_who_is_cancelled_while_it_starts_leaves_nothing(place, programs, tmp_path, turns):
    before = children()
    opening = asyncio.ensure_future(place.open(programs.launch()))
    for _ in range(turns):
        await asyncio.sleep(0)
    assert opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert logs(tmp_path / "members") == []
    assert children() == before


@pytest.mark.promise("E4", "F30")
async def test_many_at_once_each_get_their_own(place, programs):
    names = [f"m{number}" for number in range(8)]
    locations = await asyncio.gather(*(place.open(programs.launch(name, name)) for name in names))
    told = [(await programs.report()).told for _ in names]
    assert {row["argv"][0]: str(row["pid"]) for row in told} == dict(
        zip(names, (location.id for location in locations), strict=True)
    )
    lives = [WatchedProcess.open(int(location.id)) for location in locations]
    await asyncio.gather(*(place.close(location) for location in locations))
    assert not any(life.is_alive for life in lives)
    for life in lives:
        life.close()
