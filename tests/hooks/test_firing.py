"""Hooks as processes: real ones, slow ones, loud ones, deaf ones; nothing they do wedges whoever fires them."""

import asyncio
import json
import os

import pytest

from teamwright.hooks.hook_definitions import parse_hooks
from teamwright.hooks.hook_index import HookIndex
from teamwright.hooks.hook_process import MAX_OUTPUT
from teamwright.hooks.hook_runner import HookEnvironment, HookRunner
from teamwright.processes.process_records import RECORDS_DIRECTORY, ProcessRecords


class Told(list[tuple[str, str]]):
    def __call__(self, text: str, level: str) -> None:
        self.append((level, text))


def hooks_of(tmp_path, *commands: str, event: str = "PreToolUse", **more) -> tuple[HookRunner, Told]:
    hooks = [{"type": "command", "command": command, **more} for command in commands]
    parsed, warnings = parse_hooks({event: [{"hooks": hooks}]}, "x")
    assert not warnings
    told = Told()
    env = {"PATH": os.environ["PATH"], "CLAUDE_PROJECT_DIR": str(tmp_path)}
    return HookRunner(
        HookIndex(parsed), HookEnvironment(tmp_path, env, "/bin/sh", ProcessRecords(tmp_path)), told
    ), told


def lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except OSError:
        return False


@pytest.mark.promise("G7")
async def test_a_hook_reads_the_event_on_stdin_in_its_directory_with_the_projects_variable(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    hooks, told = hooks_of(tmp_path, 'cat > "$CLAUDE_PROJECT_DIR/told"; pwd -P > where')
    assert not (await hooks.fire("PreToolUse", {"tool_name": "Bash", "x": "ä\u2028"}, ("Bash",), inner)).problem
    read = json.loads((tmp_path / "told").read_text())
    assert read == {"tool_name": "Bash", "x": "ä\u2028", "hook_event_name": "PreToolUse"}
    assert (inner / "where").read_text().strip() == os.path.realpath(inner)
    assert not told
    assert not list((tmp_path / RECORDS_DIRECTORY).glob("*")), "nothing is left on record"


@pytest.mark.promise("G7", "P6")
@pytest.mark.slow
async def test_a_slow_hook_is_killed_with_its_children_and_counts_for_nothing(tmp_path):
    hooks, told = hooks_of(tmp_path, "sleep 600 & echo $! > child; trap '' TERM; echo $$ > parent; wait", timeout=1)
    outcome = await hooks.fire("PreToolUse", {}, ("Bash",))
    assert not outcome.blocked and not outcome.permission
    assert not [name for name in ("child", "parent") if lives(int((tmp_path / name).read_text()))]
    assert [level for level, _ in told] == ["warning"] and "after 1 s" in told[0][1]
    await hooks.fire("PreToolUse", {}, ("Bash",))
    assert len(told) == 1, "it is told once"


@pytest.mark.promise("G7", "P6")
async def test_a_hook_that_prints_a_megabyte_is_a_warning(tmp_path):
    hooks, told = hooks_of(tmp_path, "head -c 1048576 /dev/zero | tr '\\0' x")
    assert (await hooks.fire("PreToolUse", {}, ("Bash",))).problem
    assert "1,048,576 bytes" in told[0][1] and MAX_OUTPUT < 1_048_576


@pytest.mark.promise("G7")
async def test_a_hook_that_reads_nothing_of_a_long_event_keeps_nobody_waiting(tmp_path):
    hooks, told = hooks_of(tmp_path, "exec 0<&-; echo refused >&2; exit 2", "exit 0", "wc -c > count")
    outcome = await hooks.fire("PreToolUse", {"long": "x" * 3_000_000}, ("Bash",))
    assert outcome.reason == "refused" and not told
    assert int((tmp_path / "count").read_text()) > 3_000_000


@pytest.mark.promise("G7")
@pytest.mark.parametrize(
    "command", ["/nowhere/hook.sh", "exit 3", "kill -KILL $$", "printf '{oh no'", "printf '\\377{'"]
)
async def test_a_missing_failing_or_babbling_hook_is_at_most_a_warning(tmp_path, command):
    hooks, told = hooks_of(tmp_path, command)
    outcome = await hooks.fire("PreToolUse", {}, ("Bash",))
    assert not outcome.blocked and len(told) <= 1


@pytest.mark.promise("G7")
async def test_all_hooks_of_an_event_run_at_the_same_time(tmp_path):
    os.mkfifo(tmp_path / "a")
    os.mkfifo(tmp_path / "b")
    # Each waits for the other: one after the other they would never end.
    hooks, told = hooks_of(tmp_path, "echo x > a; read y < b", "read y < a; echo x > b", timeout=20)
    await hooks.fire("PreToolUse", {}, ("Bash",))
    assert not told


@pytest.mark.promise("G7")
async def test_a_cancelled_firing_leaves_no_process(tmp_path):
    os.mkfifo(tmp_path / "up")
    hooks, _ = hooks_of(tmp_path, "echo $$ > up; exec sleep 600")
    firing = asyncio.create_task(hooks.fire("PreToolUse", {}, ("Bash",)))
    pid = int(await asyncio.to_thread((tmp_path / "up").read_text))
    firing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await firing
    assert not lives(pid)


@pytest.mark.promise("G7")
async def test_nobody_waits_for_an_async_hook_and_the_end_of_the_session_ends_it(tmp_path, monkeypatch):
    monkeypatch.setattr("teamwright.hooks.hook_runner.CLOSE_S", 0.2)
    os.mkfifo(tmp_path / "up")
    hooks, _ = hooks_of(tmp_path, "echo $$ > up; sleep 600; exit 2", **{"async": True})
    assert not (await hooks.fire("PreToolUse", {}, ("Bash",))).blocked
    pid = int(await asyncio.to_thread((tmp_path / "up").read_text))
    await hooks.close()
    assert not lives(pid)


async def test_what_a_hook_says_to_people_is_told(tmp_path):
    hooks, told = hooks_of(tmp_path, """echo '{"systemMessage":"formatted 3 files"}'""")
    await hooks.fire("PreToolUse", {}, ("Bash",))
    assert told == [("info", "formatted 3 files")]
