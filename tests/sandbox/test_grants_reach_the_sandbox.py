"""What a person allowed runs: every way to allow a command reaches the kernel's rules, and nothing more does."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from teamwright import RequestOpened, Team
from teamwright.sandbox.sandbox import find_implementation
from teamwright.session.control.person_actions import allow_directory
from teamwright.testing import Call, ScriptedModel
from teamwright.ui.terminal.request_dialog import parse_reply
from tests.sandbox.conftest import use
from tests.sandbox.grant_world import KINDS, OF_LEAD, WAYS, World, make_way, run
from tests.support.repositories import git

IMPLEMENTATIONS = ("landlock", "bubblewrap", "off")
QUICK_KINDS = KINDS[:4]


def quick() -> Iterator[tuple[str, str, str]]:
    """Two cases for each way, so that each implementation and each kind of agent in the process meets many ways."""
    for number, way in enumerate(WAYS):
        for implementation, kind in zip(IMPLEMENTATIONS, range(number, number + 2), strict=False):
            yield way, implementation, "lead" if way in OF_LEAD else QUICK_KINDS[kind % len(QUICK_KINDS)]


def cases() -> Iterator[object]:
    first = set(quick())
    for case in itertools.product(WAYS, IMPLEMENTATIONS, KINDS):
        way, _, kind = case
        if way in OF_LEAD and kind not in {"lead", "background"}:
            continue
        marks = () if case in first else (pytest.mark.slow,)
        yield pytest.param(*case, id="-".join(case), marks=marks)


@pytest.fixture
def world() -> Iterator[World]:
    made = World(Path(tempfile.mkdtemp(prefix="teamwright-", dir="/var/tmp")))  # commands have another /tmp
    yield made
    made.remove()


@pytest.mark.finding("3S1")
@pytest.mark.parametrize(("name", "implementation", "kind"), list(cases()))
async def test_what_was_allowed_runs_and_nothing_more(world, monkeypatch, name, implementation, kind):
    if kind == "member process" and implementation not in {"off", find_implementation().name}:
        pytest.skip("another process confines commands by what works best on this machine")
    if implementation != "off":
        use(monkeypatch, implementation)
    way = make_way(name, world)
    await run(world, way, kind, sandbox="off" if implementation == "off" else "auto")
    assert (world.out / "c.txt").read_text() == "allowed"
    is_open = implementation == "off"
    assert (world.other / "x").exists() == (is_open and not way.command), "what no word of the line names"
    assert (world.out / "again").exists() == (is_open or way.gives_directory), "an approval is for one call"


async def ask(world: World, line: str, answer: str = "", **options) -> tuple[RequestOpened, ScriptedModel]:
    """Run a lead that calls Bash with this line, and answer with a key of the terminal; return the question."""
    asked: list[RequestOpened] = []

    async def on_request(request: RequestOpened) -> None:
        asked.append(request)
        reply = parse_reply(request, answer)
        await (request.allow(updates=reply.updates) if answer else request.deny())

    model = ScriptedModel([Call("Bash", {"command": line}), "Done."])
    place = {"cwd": world.work, "home": world.state, "on_request": on_request, "sandbox": "auto"} | options
    async with Team("crew", model=model, **place) as team:
        await team.run("Go.")
    [request] = asked
    return request, model


@pytest.mark.finding("3S1")
@pytest.mark.parametrize("line", ["echo x > .git/hooks/post-checkout", "cp a.txt .git/hooks/post-checkout"])
async def test_the_question_says_what_stays_closed_and_u_runs_the_line_outside(world, each_implementation, line):
    git(world.work, "init", "--quiet")
    hook = world.work / ".git/hooks/post-checkout"
    request, _ = await ask(world, line, "y")
    assert "\n# the sandbox keeps .git/hooks/post-checkout unchanged: answer u to run it outside" in request.what
    assert not hook.exists()
    await ask(world, line, "u")
    assert hook.exists()


@pytest.mark.finding("3S1")
async def test_a_denied_and_a_hidden_file_stay_hidden_also_in_a_granted_directory(world, each_implementation):
    (world.out / "secret").write_text("SECRET")
    (world.out / "plain").write_text("PLAIN")
    rules = {"disallowed_tools": [f"Read(/{world.out}/secret)"], "permission_mode": "bypassPermissions"}
    model = ScriptedModel([Call("Bash", {"command": f"sh show.sh {world.out}"}), "Done."])
    (world.work / "show.sh").write_text("cat $1/plain $1/secret\n")
    place = {"cwd": world.work, "home": world.state, "sandbox": "auto", "add_dirs": [world.out]}
    async with Team("crew", model=model, **place, **rules) as team:
        await team.run("Go.")
    assert "PLAIN" in model.request_text(1) and "SECRET" not in model.request_text(1)


@pytest.mark.finding("3S1")
@pytest.mark.parametrize("answered", ["--add-dir", "Unconfined", "sandbox.write", "--sandbox off"])
async def test_what_a_refusal_names_allows_the_command(world, each_implementation, answered):
    line = "python3 copy.py"
    options = {"permission_mode": "bypassPermissions", "sandbox": "auto"}

    async def run_line(**more) -> str:
        model = ScriptedModel([Call("Bash", {"command": line}), "Done."])
        async with Team("crew", model=model, cwd=world.work, home=world.state, **options | more) as team:
            await team.run("Go.")
        return model.request_text(1)

    (world.work / "copy.py").write_text(f"open('{world.other}/x', 'w')\n")
    text = await run_line()
    assert answered in text and not (world.other / "x").exists()
    if answered == "sandbox.write":
        world.settings(sandbox={"write": [str(world.other)]})
    ways = {
        "--add-dir": {"add_dirs": [world.other]},
        "Unconfined": {"allowed_tools": [f"Unconfined({line})"]},
        "--sandbox off": {"sandbox": "off"},
    }
    await run_line(**ways.get(answered, {}))
    assert (world.other / "x").exists()


@pytest.mark.finding("3S1")
async def test_after_a_directory_is_added_commands_read_and_change_it(world, each_implementation):
    (world.out / "in.txt").write_text("INSIDE")
    lines = [f"cat {world.out}/in.txt", f"touch {world.out}/new", f"cd {world.out} && cat in.txt"]
    model = ScriptedModel([*(Call("Bash", {"command": line}) for line in lines), "Done."])
    place = {"cwd": world.work, "home": world.state, "sandbox": "auto", "permission_mode": "acceptEdits"}
    async with Team("crew", model=model, **place) as team:
        await allow_directory(team.session, world.out)
        await team.run("Go.")
    assert "INSIDE" in model.request_text(1) and (world.out / "new").exists()
    assert f"directory is now {world.out}" in model.request_text(3)
