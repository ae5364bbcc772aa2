"""Members in tmux, on a real private server whose windows and panes count from 1."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path
from socket import AF_UNIX
from socket import socket as AnySocket

import pytest
from msgspec.structs import replace

from teamwright.backends.tmux import TmuxBackend, TmuxSettings
from teamwright.processes.process_tree import process_start
from teamwright.protocol.errors import CannotStart
from teamwright.teams.backend import Location
from tests.support.waits import WAIT_S
from tests.teams.backends.rig import TMUX, needs_tmux

pytestmark = needs_tmux


def nobody_carries(*texts: str) -> bool:
    """No process of this machine has one of these texts in its arguments."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().decode("utf-8", "replace"))
        except OSError:
            continue
    return not [line for line in found if any(text in line for text in texts)]


@pytest.mark.promise("E2", "F30", "F34", "F35")
async def test_arguments_environment_and_directory_arrive_byte_for_byte(rig, programs, tmp_path):
    words = [
        "a b",
        "it's",
        'say "x"',
        "end;",
        ";",
        "#{pid}",
        "$HOME",
        "é🚀",
        "",
        "-n",
        "back\\",
        "line\nbreak",
        "\udcff",
    ]
    env = {
        "KEY": "sk-1; rm 'x' $(y)\n\ttab",
        "EMPTY": "",
        "BYTES": "\udcff\udc80é",
        "ODD.NAME-1": "=a=b",
        "PATH": "/bin",
    }
    cwd = tmp_path / "a #{pid} 'dir';"
    cwd.mkdir()
    location = await rig.place().open(programs.launch("ada", *words, env=env, cwd=cwd))
    told = (await programs.report()).told
    assert [word.encode("latin-1") for word in told["argv"]] == [os.fsencode(word) for word in words]
    assert told["cwd"].encode("latin-1") == os.fsencode(cwd)
    got = {key: value.encode("latin-1") for key, value in told["env"].items()}
    of_the_pane = {key: got.pop(key) for key in ("TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "TMUX", "TMUX_PANE")}
    assert got == {key: os.fsencode(value) for key, value in env.items()} | {
        "LC_CTYPE": got.get("LC_CTYPE")
    } or got == {key: os.fsencode(value) for key, value in env.items()}
    assert of_the_pane["TMUX_PANE"] == location.id.encode()
    assert location.facts["pid"] == str(told["pid"]) == rig.panes("#{pane_pid}")[location.id]


@pytest.mark.promise("F35", "F66")
async def test_a_secret_is_in_no_argument_and_not_with_the_server(rig, programs):
    secret = "sk-ant-" + os.urandom(8).hex()
    place = TmuxBackend(TMUX, {**rig.environ, "SOME_KEY": secret})
    await place.open(programs.launch(env={"SOME_KEY": secret}))
    assert (await programs.report()).told["env"]["SOME_KEY"] == secret
    assert nobody_carries(secret)
    assert secret not in rig.run("show-environment", "-g")
    assert secret not in rig.run("show-environment", "-t", "main")


@pytest.mark.promise("E2", "F31")
async def test_a_member_gets_title_and_colour_beside_the_lead_who_keeps_its_share_and_the_focus(rig, programs):
    rig.run("set-option", "-g", "pane-border-style", "fg=cyan,#{?synchronize-panes,bg=red,bg=black},bold")
    usual = rig.panes("#{E:pane-border-style} #{E:pane-active-border-style} #{@teamwright_colour}")[rig.lead]
    place = rig.place()
    first = await place.open(programs.launch("ada"))
    second = await place.open(programs.launch("bob", color="red"))
    third = await place.open(programs.launch("eve", color="no colour"))
    sizes = {id: tuple(map(int, size.split())) for id, size in rig.panes("#{pane_width} #{pane_height}").items()}
    assert sizes[rig.lead][0] == 59
    assert {sizes[location.id][0] for location in (first, second, third)} == {140}
    heights = [sizes[location.id][1] for location in (first, second, third)]
    assert max(heights) - min(heights) <= 2
    assert rig.panes("#{pane_active}")[rig.lead] == "1"
    assert rig.panes("#{pane_title}")[first.id] == "ada"
    styles = rig.panes("#{E:pane-border-style} #{E:pane-active-border-style} #{@teamwright_colour}")
    assert styles[first.id] == "fg=magenta fg=magenta magenta"
    assert styles[second.id] == "fg=red fg=red red"
    assert styles[third.id] == "fg=default fg=default default"
    assert styles[rig.lead] == usual
    assert first.note == ""


@pytest.mark.promise("E2", "F27")
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
@pytest.mark.slow_after(1)
async def test_a_program_that_cannot_be_started_is_an_error_and_leaves_nothing(rig, programs, argv, cwd, why):
    before = rig.panes("#{window_id} #{pane_width} #{pane_height} #{pane-border-status}")
    with pytest.raises(CannotStart, match="ada could not be started in tmux") as raised:
        await rig.place().open(programs.launch(argv=argv, cwd=Path(cwd)))
    assert why in raised.value.what
    assert raised.value.slug == "backend"
    assert rig.panes("#{window_id} #{pane_width} #{pane_height} #{pane-border-status}") == before


@pytest.mark.promise("F27")
async def test_a_program_that_fails_says_why_after_its_end_and_its_pane_is_then_closed(rig, programs):
    place = rig.place()
    location = await place.open(programs.launch())
    report = await programs.report()
    assert await place.is_alive(location)
    await report.tell("fail")
    async with asyncio.timeout(WAIT_S):
        await place.wait_until_ended(location)
    assert not await place.is_alive(location)
    words = await place.last_output(location)
    assert words.splitlines()[0] == "ended with status 3"
    assert "the key is not accepted" in words
    assert "Pane is dead" not in words
    await place.close(location)
    assert list(rig.panes()) == [rig.lead]
    assert await place.last_output(location) == ""
    await place.close(location)


async def test_a_program_that_ends_well_takes_its_pane_along(rig, programs):
    place = rig.place()
    location = await place.open(programs.launch())
    await (await programs.report()).tell("enough")
    async with asyncio.timeout(WAIT_S):
        await place.wait_until_ended(location)
    assert not await place.is_alive(location)
    await place.close(location)
    assert list(rig.panes()) == [rig.lead]


async def test_signals_that_our_starter_ignores_are_not_ignored_by_the_program(rig, programs):
    place = rig.place()
    location = await place.open(programs.launch(argv=("/bin/sh", "-c", "kill -PIPE $$; exec sleep 1000")))
    async with asyncio.timeout(WAIT_S):
        await place.wait_until_ended(location)
    assert "13" in (await place.last_output(location)).splitlines()[0]


@pytest.mark.promise("F20", "P3")
@pytest.mark.slow
async def test_a_closed_a_killed_and_a_replaced_program_are_not_alive(rig, programs):
    place = rig.place()
    closed, killed, replaced, lives = [await place.open(programs.launch(name)) for name in "abcd"]
    rig.run("kill-pane", "-t", closed.id)
    os.kill(int(killed.facts["pid"]), signal.SIGKILL)
    async with asyncio.timeout(WAIT_S):
        await place.wait_until_ended(killed)
    rig.run("respawn-pane", "-k", "-t", replaced.id, "--", "sleep", "1000")
    assert [await place.is_alive(location) for location in (closed, killed, replaced, lives)] == [
        False,
        False,
        False,
        True,
    ]
    another = TmuxBackend(
        TMUX, {"PATH": os.environ["PATH"]}
    )  # a later process, outside of tmux, with what was written down
    assert await another.is_alive(Location.from_json(lives.to_json()))
    rig.stop()
    assert not await another.is_alive(lives)
    await another.close(lives)


@pytest.mark.promise("F21")
@pytest.mark.slow
async def test_closing_ends_a_program_that_ignores_hangups_also_when_its_pane_is_gone(rig, programs):
    place = rig.place(end_s=0.2)
    locations = [await place.open(programs.launch(name)) for name in ("ada", "bob")]
    reports = [await programs.report() for _ in locations]
    assert [await report.tell("ignore") for report in reports] == ["ignoring"] * 2
    rig.run("kill-pane", "-t", locations[0].id)
    for location in locations:
        await place.close(location)
        assert not process_start(int(location.facts["pid"]))  # tmux may be late to bury it


@pytest.mark.promise("F32")
async def test_a_pane_that_has_the_id_but_not_our_tag_is_left_alone(rig, programs):
    place = rig.place()
    location = await place.open(programs.launch())
    other = rig.split("-t", rig.lead)
    stolen = replace(location, id=other)
    await place.close(stolen)
    assert not await place.is_alive(stolen)
    assert not await place.hide(stolen)
    rig.run("set-option", "-p", "-t", location.id, "@teamwright", "somebody/else/ada/1")
    await place.close(location)
    assert {rig.lead, other, location.id} == set(rig.panes())


@pytest.mark.slow
@pytest.mark.promise("F30", "F26")
async def test_sixteen_at_once_start_while_every_shell_of_the_user_takes_long(rig, programs, tmp_path):
    slow = tmp_path / "slow-shell"
    slow.write_text("#!/bin/sh\nsleep 600\n")
    slow.chmod(0o755)
    rig.run("set-option", "-g", "default-shell", str(slow))
    rig.run("set-option", "-g", "default-command", "sleep 600")
    place = rig.place()
    names = [f"m{number}" for number in range(16)]
    async with asyncio.timeout(WAIT_S):
        locations = await asyncio.gather(*(place.open(programs.launch(name, name)) for name in names))
    told = [(await programs.report()).told for _ in names]
    assert sorted(one["argv"][0] for one in told) == sorted(names)
    assert len({location.id for location in locations}) == 16
    assert all([await place.is_alive(location) for location in locations])
    assert rig.panes("#{pane_width}")[rig.lead] == "59"
    elsewhere = [location for location in locations if location.note]
    assert all("no room beside the lead" in location.note for location in elsewhere)
    assert 0 < len(elsewhere) < 16
    await asyncio.gather(*(place.close(location) for location in locations))
    assert list(rig.panes()) == [rig.lead]


@pytest.mark.promise("E2")
@pytest.mark.slow
async def test_in_the_window_layout_the_leads_window_stays_as_it_is(rig, programs):
    before = rig.run("list-windows", "-F", "#{window_id} #{window_layout} #{pane-border-status}")
    place = rig.place(layout="window")
    locations = [await place.open(programs.launch(name)) for name in ("ada", "bob", "eve")]
    windows = rig.panes("#{window_id}")
    assert len({windows[location.id] for location in locations} - {windows[rig.lead]}) == 1
    assert rig.run("list-windows", "-F", "#{window_id} #{window_layout} #{pane-border-status}").startswith(before)
    assert rig.run("display-message", "-p", "-t", rig.lead, "#{window_active}").strip() == "1"
    for location in locations:
        await place.close(location)
    assert rig.run("list-windows", "-F", "#{window_id} #{window_layout} #{pane-border-status}") == before


@pytest.mark.promise("E2")
@pytest.mark.parametrize(("columns", "lead"), [(80, 40), (60, 30), (120, 40)])
@pytest.mark.slow_after(1)
async def test_in_a_narrow_window_the_lead_keeps_columns_to_type_in_up_to_half_of_it(rig, programs, columns, lead):
    rig.run("resize-window", "-t", rig.lead, "-x", str(columns), "-y", "40")
    first = await rig.place().open(programs.launch("ada"))
    second = await rig.place().open(programs.launch("bob"))
    widths = {id: int(width) for id, width in rig.panes("#{pane_width}").items()}
    assert widths == {rig.lead: lead, first.id: columns - lead - 1, second.id: columns - lead - 1}


@pytest.mark.promise("E2")
async def test_a_window_without_room_is_left_for_a_new_one_and_that_is_said(rig, programs):
    rig.run("resize-window", "-t", rig.lead, "-x", "24", "-y", "3")
    location = await rig.place().open(programs.launch())
    windows = rig.panes("#{window_id}")
    assert windows[location.id] != windows[rig.lead]
    assert location.note == "there is no room beside the lead: it is in the window docs"


@pytest.mark.promise("F31")
async def test_when_the_leads_pane_is_gone_members_come_into_its_session(rig, programs):
    place, other = rig.place(), rig.window()
    rig.run("new-session", "-d", "-s", "another", "--", "sleep", "1000")
    rig.run("kill-pane", "-t", rig.lead)
    location = await place.open(programs.launch())
    assert rig.panes("#{session_name}")[location.id] == "main"
    assert "the lead's pane is gone" in location.note
    assert other in rig.panes()


@pytest.mark.promise("E2", "F33")
@pytest.mark.finding("T14")
async def test_outside_of_tmux_a_server_of_our_own_is_made_and_named_and_ends_with_its_members(programs):
    folder = Path(tempfile.mkdtemp(prefix="tq-", dir="/tmp"))
    try:
        (folder / ".tmux.conf").write_text("set -g @read yes\n")
        secret = "sk-ant-" + os.urandom(8).hex()
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMUX_TMPDIR": str(folder), "SOME_KEY": secret}
        place = TmuxBackend(TMUX, environ, TmuxSettings())
        locations = await asyncio.gather(*(place.open(programs.launch(name)) for name in ("ada", "bob")))
        socket = locations[0].facts["socket"]
        assert Path(socket).name == f"teamwright-7f3a0000-{os.getpid()}-1"
        assert locations[0].note == f"see it with: tmux -S {socket} attach"
        assert {location.facts["socket"] for location in locations} == {socket}
        assert {location.facts["window"] for location in locations} == {locations[0].facts["window"]}
        server = place._at(socket)
        assert await server.run(("show-options", "-gqv", "@read")) == []
        assert secret not in "".join(await server.run(("show-environment", "-g")))
        for location in locations:
            assert await place.is_alive(location)
            await place.close(location)
        assert not await place.is_alive(locations[0])
        assert not Path(socket).exists()
        dead = Path(socket).with_name("teamwright-of-a-lead-that-was-killed")
        with AnySocket(AF_UNIX) as left:
            left.bind(str(dead))
        again = await place.open(programs.launch("eve"))
        assert await place.is_alive(again)
        assert not dead.exists()
        await place.close(again)
        assert not list(folder.rglob("teamwright-*"))
    finally:
        shutil.rmtree(folder)


@pytest.mark.promise("F31")
async def test_a_server_that_took_the_socket_of_the_leads_is_not_the_leads(rig, programs):
    folder = tempfile.mkdtemp(prefix="tq-", dir="/tmp")
    try:
        place = TmuxBackend(TMUX, {**rig.environ, "TMUX_TMPDIR": folder})
        rig.stop()
        rig.start()
        location = await place.open(programs.launch())
        assert "is gone; see it with: tmux -S" in location.note
        assert list(rig.panes()) == [rig.lead]
        await place.close(location)
    finally:
        shutil.rmtree(folder)


@pytest.mark.promise("E2")
async def test_a_member_is_hidden_and_shown_again_and_lives_on(rig, programs):
    place = rig.place()
    ada, bob = [await place.open(programs.launch(name)) for name in ("ada", "bob")]
    for location in (ada, bob):
        assert await place.hide(location)
        assert await place.hide(location)
    windows = rig.panes("#{window_id}")
    assert len({windows[rig.lead], windows[ada.id], windows[bob.id]}) == 3
    assert rig.panes("#{pane_width} #{pane-border-status}")[rig.lead] == "200 off"
    assert rig.panes("#{window_active} #{pane_active}")[rig.lead] == "1 1"
    for location in (bob, ada):
        assert await place.show(location)
        assert await place.show(location)
    assert len(set(rig.panes("#{window_id}").values())) == 1
    assert rig.panes("#{pane_width} #{pane_active}")[rig.lead] == "59 1"
    assert await place.is_alive(ada) and await place.is_alive(bob)
    await place.close(ada)
    assert not await place.hide(ada)
    assert not await place.show(ada)


@pytest.mark.promise("E2")
async def test_a_zoomed_pane_of_the_user_stays_zoomed(rig, programs):
    place = rig.place()
    rig.split("-t", rig.lead)
    rig.run("resize-pane", "-Z", "-t", rig.lead)
    locations = [await place.open(programs.launch(name)) for name in ("ada", "bob")]
    assert rig.panes("#{window_zoomed_flag} #{pane_active} #{pane_width}")[rig.lead] == "1 1 200"
    await place.hide(locations[0])
    assert rig.panes("#{window_zoomed_flag} #{pane_active} #{pane_width}")[rig.lead] == "1 1 200"
    await place.show(locations[0])
    assert rig.panes("#{window_zoomed_flag} #{pane_active} #{pane_width}")[rig.lead] == "1 1 200"
    await place.close(locations[1])
    assert rig.panes("#{window_zoomed_flag} #{pane_active} #{pane_width}")[rig.lead] == "1 1 200"


@pytest.mark.promise("E2", "F31")
@pytest.mark.slow
async def test_what_several_people_look_at_never_changes(rig, programs):
    rig.window()
    rig.run("new-session", "-d", "-t", "main", "-s", "grouped")
    rig.run("select-window", "-t", "grouped:$")
    with rig.attached("main"), rig.attached("grouped"):
        before = rig.run("list-clients", "-F", "#{client_pid} #{window_id} #{pane_id}")
        assert len(before.splitlines()) == 2
        for layout in ("split", "window"):
            place = rig.place(layout=layout)
            locations = [await place.open(programs.launch(name)) for name in ("ada", "bob")]
            for act in (place.hide, place.show, place.close):
                await act(locations[0])
                assert rig.run("list-clients", "-F", "#{client_pid} #{window_id} #{pane_id}") == before
            assert {rig.panes("#{session_group}")[locations[1].id]} == {"main"}


@pytest.mark.promise("E2")
@pytest.mark.parametrize("was", ["", "off", "bottom"])
@pytest.mark.slow_after(1)
async def test_the_users_window_gets_its_border_setting_back(rig, programs, was):
    if was:
        rig.run("set-option", "-w", "-t", rig.lead, "pane-border-status", was)
    options = rig.run("show-options", "-w", "-t", rig.lead)
    place = rig.place()
    locations = [await place.open(programs.launch(name)) for name in ("ada", "bob")]
    assert rig.panes("#{pane-border-status}")[rig.lead] == (was if was == "bottom" else "top")
    for location in locations:
        await place.close(location)
    assert rig.run("show-options", "-w", "-t", rig.lead) == options


@pytest.mark.promise("F21", "F27")
async def test_a_start_that_is_cancelled_at_any_moment_leaves_nothing(rig, programs):
    place = rig.place()
    for steps in range(0, 200, 7):
        starting = asyncio.ensure_future(place.open(programs.launch()))
        for _ in range(steps):
            if starting.done():
                break
            await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await place.close(await starting)
    await asyncio.to_thread(only, rig, {rig.lead})


def only(rig, expected):
    """Until the server has these panes alone: a starter that lost its offer ends by itself."""
    deadline = 600
    while set(rig.panes()) != expected and deadline:
        rig.run("run-shell", "-d", "0.1")
        deadline -= 1
    assert set(rig.panes()) == expected
