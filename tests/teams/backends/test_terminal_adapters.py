"""Members in a terminal of the settings: a program that plays one, with pseudo-terminals and processes of its own."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from teamwright.backends.adapter_backend import AdapterBackend, unusable_reason
from teamwright.backends.terminal_adapter import parse_adapter, shipped_adapters
from teamwright.processes.process_tree import process_start
from teamwright.protocol.errors import CannotStart
from teamwright.teams.backend import Location
from tests.support.programs import needs
from tests.support.waits import WAIT_S, wait_until
from tests.teams.backends import terminal

SCREEN = shutil.which("screen")


class Panes:
    """A terminal of one test and the recipes that drive it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cli = [sys.executable, "-I", terminal.__file__, str(folder)]

    def place(self, environ=None, **changes):
        said = {
            "open": [*self.cli, "open", "--", "{argv}"],
            "alive": [*self.cli, "list"],
            "where": {"pane_id": "{id}", "tty_name": "{tty}"},
            "close": [*self.cli, "close", "{id}"],
            **changes,
        }
        return AdapterBackend(parse_adapter("played", said), os.environ if environ is None else environ)

    def rows(self):
        return terminal.listed(self.folder)

    async def script(self, text, name="opener"):
        """A program of the user's, which may do anything."""
        path = self.folder.parent / name
        path.write_text(f"#!{sys.executable} -I\n{text}")
        path.chmod(0o700)
        return str(path)


@pytest.fixture
def panes(tmp_path):
    folder = tmp_path / "panes"
    folder.mkdir()
    made = Panes(folder)
    yield made
    for row in made.rows():
        with contextlib.suppress(ProcessLookupError):
            os.kill(row["pid"], signal.SIGKILL)


@pytest.mark.promise("E4", "F30", "F34", "F35")
async def test_the_environment_is_the_launch_s_whatever_the_terminal_has(panes, programs, tmp_path):
    words = ["a b", "it's", "$HOME", "{id}", "{{x}}", ";", "é🚀", "", "-n", "line\nbreak", "\udcff"]
    env = {"KEY": "sk-1; rm 'x'\n", "EMPTY": "", "BYTES": "\udcff", "PATH": "/bin"}
    cwd = tmp_path / "a {name} 'dir';"
    cwd.mkdir()
    place = panes.place()
    location = await place.open(programs.launch("ada", *words, env=env, cwd=cwd))
    told = (await programs.report()).told
    assert [word.encode("latin-1") for word in told["argv"]] == [os.fsencode(word) for word in words]
    assert told["cwd"].encode("latin-1") == os.fsencode(cwd)
    got = {key: value.encode("latin-1") for key, value in told["env"].items() if key != "LC_CTYPE"}
    assert got == {**{key: os.fsencode(value) for key, value in env.items()}, "TERM": b"xterm-test"}
    assert (location.kind, location.facts["pid"]) == ("played", str(told["pid"]))
    assert await place.is_alive(location)


@pytest.mark.promise("E4", "F66")
async def test_a_secret_of_the_launch_and_of_the_lead_reaches_no_command_of_the_recipe(panes, programs):
    heard = panes.folder.parent / "heard"
    wrapper = await panes.script(
        "import json, os, sys\n"
        f"open({str(heard)!r}, 'w').write(json.dumps([sys.argv, dict(os.environ)]))\n"
        f"os.execv({panes.cli[0]!r}, {panes.cli!r} + sys.argv[1:])\n"
    )
    environ = {**os.environ, "ANTHROPIC_API_KEY": "sk-of-the-lead", "MY_TERMINAL": "here", "OTHER": "no"}
    place = panes.place(environ, open=[wrapper, "open", "--", "{argv}"], env={"SOCKET": "s"}, takes=["MY_TERMINAL"])
    location = await place.open(programs.launch(env={"KEY": "sk-of-the-launch"}))
    assert (await programs.report()).told["env"]["KEY"] == "sk-of-the-launch"
    argv, env = json.loads(heard.read_text())
    assert not [text for text in (*argv, *env.values()) if "sk-of" in text]
    assert (env["MY_TERMINAL"], env["SOCKET"], "OTHER" in env) == ("here", "s", False)
    await place.close(location)


@pytest.mark.promise("E4", "F21")
@pytest.mark.slow
async def test_closing_takes_the_pane_and_the_program_even_one_that_ignores_it(panes, programs):
    place = panes.place()
    locations = [await place.open(programs.launch(name)) for name in ("ada", "bob")]
    reports = [await programs.report() for _ in locations]
    assert [await report.tell("ignore") for report in reports] == ["ignoring"] * 2
    await place.close(locations[0])
    assert [await place.is_alive(location) for location in locations] == [False, True]
    assert [row["pid"] for row in panes.rows()] == [int(locations[1].facts["pid"])]
    await place.close(locations[0])
    later = panes.place()  # another process, with what was written down
    await later.close(Location.from_json(locations[1].to_json()))
    assert panes.rows() == []


@pytest.mark.promise("E4", "F20")
async def test_a_program_that_ended_is_not_alive_and_its_end_is_an_event(panes, programs):
    place = panes.place()
    location = await place.open(programs.launch())
    report = await programs.report()
    await report.tell("enough")
    async with asyncio.timeout(WAIT_S):
        await place.wait_until_ended(location)
    assert not await place.is_alive(location)
    await place.close(location)


@pytest.mark.promise("E4", "F32")
async def test_a_pane_of_somebody_else_that_has_the_id_now_stays(panes, programs, stranger):
    place = panes.place(open=[*panes.cli, "open", "--hold", "--", "{argv}"])
    location = await place.open(programs.launch())
    await (await programs.report()).tell("enough")
    async with asyncio.timeout(WAIT_S):
        await place.wait_until_ended(location)
    (held,) = panes.rows()
    (panes.folder / f"{location.id}.json").write_text(json.dumps({**held, "pid": stranger.pid}))
    await place.close(location)
    assert len(panes.rows()) == 1  # the same number and device, and no proof that it is ours
    assert stranger.poll() is None


@pytest.mark.promise("E4")
async def test_what_bears_our_mark_is_closed_also_after_its_program_ended(panes, programs, stranger):
    place = panes.place(
        open=[*panes.cli, "open", "--hold", "--mark", "{mark}", "--", "{argv}"],
        alive=[*panes.cli, "has", "{mark}"],
        where={},
    )
    location = await place.open(programs.launch())
    await (await programs.report()).tell("enough")
    async with asyncio.timeout(WAIT_S):
        await place.wait_until_ended(location)
    (row,) = panes.rows()
    (panes.folder / f"{location.id}.json").write_text(json.dumps({**row, "pid": stranger.pid}))
    await place.close(location)
    assert panes.rows() == []


OPENERS = {
    "fails": ("import sys; sys.exit('no window here')", "failed with status 1"),
    "prints nothing": ("pass", "its output names no id"),
    "prints rubbish": ("print('\\x1b[31m\\x00\\x07')", "names an id that is none"),
    "prints a flag": ("print('--all')", "names an id that is none"),
    "names a pane and starts nothing": ("print(7)", "it did not begin within 2 seconds"),
    "never ends": ("import signal\nwhile True: signal.pause()", "did not end within"),
    "is gone": (None, "could not be run"),
}


@pytest.mark.promise("E4", "F27", "F32")
@pytest.mark.parametrize(("text", "why"), OPENERS.values(), ids=OPENERS)
@pytest.mark.slow_after(1)
async def test_an_opener_that_does_anything_else_is_an_error_and_closes_nothing(panes, programs, text, why):
    mine = await panes.place().open(programs.launch("mine"))
    await programs.report()
    opener = await panes.script(text or "")
    if text is None:
        os.unlink(opener)
    place = panes.place(open=[opener, "{argv}"], start_s=2)
    with pytest.raises(CannotStart, match="ada could not be started in played") as raised:
        await place.open(programs.launch())
    assert (raised.value.slug, why in raised.value.what) == ("backend", True), raised.value.what
    assert [row["pid"] for row in panes.rows()] == [int(mine.facts["pid"])]
    assert await panes.place().is_alive(mine)


@pytest.mark.slow
@pytest.mark.promise("E4", "F32")
async def test_an_opener_that_names_somebody_else_s_pane_is_refused_and_what_it_started_is_ended(panes, programs):
    mine = await panes.place().open(programs.launch("mine"))
    await programs.report()
    cli = json.dumps(panes.cli)
    liar = await panes.script(
        f"import subprocess, sys\nsubprocess.run({cli} + sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        f"print({mine.id!r})\n"
    )
    with pytest.raises(CannotStart, match="does not list what was started as 7"):
        await panes.place(open=[liar, "open", "--", "{argv}"]).open(programs.launch())
    report = await programs.report()
    assert not process_start(report.told["pid"])
    assert await panes.place().is_alive(mine)


@pytest.mark.promise("E4", "F27")
async def test_a_slow_opener_that_talks_a_lot_is_waited_for(panes, programs):
    opener = await panes.script(
        "import subprocess, sys, time\ntime.sleep(0.3)\n"
        "sys.stdout.write('noise ' * 400000 + '\\n')\nsys.stdout.flush()\n"
        f"subprocess.run({panes.cli!r} + sys.argv[1:], check=True)\n"
    )
    place = panes.place(open=[opener, "open", "--", "{argv}"])
    location = await place.open(programs.launch())
    assert (await programs.report()).told["pid"] == int(location.facts["pid"])
    await place.close(location)


@pytest.mark.promise("E4", "F27")
@pytest.mark.parametrize(
    ("argv", "cwd", "why"),
    [(("/nonexistent/agent",), "/", "No such file"), (("/bin/true",), "/nonexistent/dir", "/nonexistent/dir")],
)
async def test_a_program_that_cannot_be_started_leaves_no_pane(panes, programs, argv, cwd, why):
    closed = panes.folder.parent / "closed"
    os.mkfifo(closed)
    with pytest.raises(CannotStart) as raised:
        await panes.place(open=[*panes.cli, "open", "--tell", str(closed), "--", "{argv}"]).open(
            programs.launch(argv=argv, cwd=Path(cwd))
        )
    assert why in raised.value.what
    async with asyncio.timeout(WAIT_S):
        assert await asyncio.to_thread(closed.read_text) == "closed"  # by the terminal, when its program had ended
    assert panes.rows() == []


@pytest.mark.promise("E4", "F30")
@pytest.mark.slow
async def test_many_at_once_each_get_their_own(panes, programs):
    place = panes.place()
    names = [f"m{number}" for number in range(6)]
    locations = await asyncio.gather(*(place.open(programs.launch(name, name)) for name in names))
    told = [(await programs.report()).told for _ in names]
    assert {row["argv"][0]: str(row["pid"]) for row in told} == dict(
        zip(names, (location.facts["pid"] for location in locations), strict=True)
    )
    assert len({location.id for location in locations}) == len(names)
    for location in locations:
        await place.close(location)


@pytest.mark.promise("E4")
async def test_later_ones_go_beside_the_newest_that_lives_and_elsewhere_when_that_fails(panes, programs):
    log = panes.folder.parent / "beside"
    beside = await panes.script(
        f"import os, sys\nopen({str(log)!r}, 'a').write(sys.argv[1] + '\\n')\n"
        f"os.execv({panes.cli[0]!r}, {panes.cli!r} + sys.argv[2:])\n"
    )
    place = panes.place(open_beside=[beside, "{beside}", "open", "--", "{argv}"])
    first, second = [await place.open(programs.launch(name)) for name in ("ada", "bob")]
    await place.close(second)
    os.unlink(beside)
    third = await place.open(programs.launch("eve"))
    assert log.read_text().split() == [first.id]
    assert await place.is_alive(third)


@pytest.mark.promise("E4")
async def test_hide_show_and_title_are_run_for_what_is_ours(panes, programs):
    log = panes.folder.parent / "said"
    say = await panes.script(f"import sys\nopen({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n", "say")
    place = panes.place(
        hide=[say, "hide", "{id}"], show=[say, "show", "{pid}"], title=[say, "title", "{name}", "{color}"]
    )
    location = await place.open(programs.launch("ada"))
    assert [await place.hide(location), await place.show(location)] == [True, True]
    assert log.read_text().splitlines() == ["title ada purple", f"hide {location.id}", f"show {location.facts['pid']}"]
    assert not await panes.place().hide(location)
    await place.close(location)
    assert not await place.show(location)


@pytest.mark.promise("E4")
async def test_an_id_with_odd_characters_is_one_argument_as_it_is(panes, programs):
    odd = "pane one's $(id); {name} 🚀"
    opener = await panes.script(
        "import json, subprocess, sys\n"
        f"subprocess.run({panes.cli!r} + sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        f"print(json.dumps({{'panes': [{{'id': {odd!r}}}]}}))\n"
    )
    heard = panes.folder.parent / "closed"
    closer = await panes.script(f"import sys\nopen({str(heard)!r}, 'w').write(sys.argv[1])\n", "closer")
    place = panes.place(
        open=[opener, "open", "--", "{argv}"],
        id={"json": "panes.0.id"},
        where={"tty_name": "{tty}", "pid": "{pid}"},
        close=[closer, "{id}"],
    )
    location = await place.open(programs.launch())
    assert location.id == odd
    await place.close(location)
    assert heard.read_text() == odd
    assert not await place.is_alive(location)


@pytest.mark.promise("E4", "P3")
async def test_a_terminal_that_does_not_answer_is_told_and_the_program_has_ended_all_the_same(panes, programs):
    marked = {"open": [*panes.cli, "open", "--mark", "{mark}", "--", "{argv}"], "where": {}}
    place = panes.place(alive=[*panes.cli, "has", "{mark}"], **marked)
    location = await place.open(programs.launch())
    stuck = await panes.script("import signal\nwhile True: signal.pause()")
    with pytest.raises(CannotStart, match=r"did not end within 0\.3 seconds"):
        await panes.place(alive=[stuck, "{mark}"], start_s=0.3, **marked).close(Location.from_json(location.to_json()))
    assert not await place.is_alive(location)


@pytest.mark.promise("E4", "F27")
async def test_who_is_cancelled_while_it_opens_leaves_nothing(panes, programs):
    opener = await panes.script("import signal\nwhile True: signal.pause()")
    began = panes.folder.parent / "began"
    os.mkfifo(began)
    slow = await panes.script(
        f"import os, sys\nopen({str(began)!r}, 'w').write('x')\nos.execv({opener!r}, [{opener!r}])\n", "slow"
    )
    opening = asyncio.ensure_future(panes.place(open=[slow, "{argv}"]).open(programs.launch()))
    async with asyncio.timeout(WAIT_S):
        await asyncio.to_thread(began.read_text)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if opener.encode() in _read(path)]


@pytest.mark.promise("E4", "F33")
def test_why_a_recipe_cannot_be_used_here_is_told(panes):
    adapter = parse_adapter(
        "played", {"open": ["wez-none", "{argv}"], "alive": ["sh", "{mark}"], "close": ["sh", "{id}"]}
    )
    assert unusable_reason(adapter, {"PATH": os.defpath}) == "its program is not installed (no wez-none in PATH)"
    said = {"open": ["sh", "{env:PANE}", "{argv}"], "alive": ["sh", "{mark}"], "close": ["sh", "{id}"]}
    assert unusable_reason(parse_adapter("played", said), {"PATH": os.defpath}).endswith("(PANE is not set)")
    assert unusable_reason(parse_adapter("played", said), {"PATH": os.defpath, "PANE": "1"}) == ""


@pytest.mark.promise("E4")
@needs("screen")
async def test_the_recipe_of_gnu_screen_works_with_gnu_screen(programs):
    with screen_session() as (environ, windows):
        place = AdapterBackend(shipped_adapters()["screen"], environ)
        ada, bob = [await place.open(programs.launch(name, env={"KEY": "1"})) for name in ("ada", "bob")]
        assert {(await programs.report()).told["env"]["KEY"] for _ in range(2)} == {"1"}
        await place.close(ada)
        assert [await place.is_alive(ada), await place.is_alive(bob)] == [False, True]
        assert (ada.id in windows(), bob.id in windows()) == (False, True)
        await place.close(bob)
        assert bob.id not in windows()


@contextlib.contextmanager
def screen_session():
    """The environment of a lead in a session of GNU screen, and what lists its windows."""
    folder = tempfile.mkdtemp(prefix="ts-", dir="/tmp")
    environ = {**os.environ, "SCREENDIR": folder, "TERM": "xterm"}

    def screen(*words):
        return subprocess.run(
            [SCREEN, *words], env=environ, capture_output=True, text=True, check=True, timeout=WAIT_S
        ).stdout

    screen("-dmS", "lead", "cat")
    (session,) = wait_until(lambda: os.listdir(folder), "the session of screen")
    try:
        yield {**environ, "STY": session}, lambda: screen("-S", session, "-Q", "windows")
    finally:
        screen("-S", session, "-X", "quit")
        shutil.rmtree(folder, ignore_errors=True)


def _read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""
