"""Compaction and SIGKILL: a real process, killed at each of its moments, and what the files say afterwards."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.agent.conversation import Conversation
from teamwright.agent.transcript import read_history
from teamwright.mail.inbox import inbox_for
from teamwright.models.model import Prefix
from teamwright.protocol.mail import InboxEntry
from tests.support.waits import WAIT_S

LETTERS = 40
ROOT = Path(__file__).parents[3]


def life(root: Path, at: int, kind: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.agent.compaction.kill_child", str(root), str(at), kind]
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=WAIT_S)


def lines_of(root: Path) -> list[dict]:
    whole = (root / "ada.jsonl").read_bytes().rpartition(b"\n")[0]
    return [json.loads(line) for line in whole.split(b"\n")]


def inbox_of(root: Path):
    return inbox_for(root / "inbox.json", root / "guard", root / "archive.jsonl")


async def send(root: Path) -> None:
    for number in range(LETTERS):
        entry = InboxEntry(
            sender="ben", text=f"letter {number}", timestamp="2026-11-21T10:00:00.000Z", msg_id=f"m{number}"
        )
        await inbox_of(root).put(entry)


@pytest.mark.slow
@pytest.mark.promise("P1", "H6", "H5", "F57")
@pytest.mark.parametrize(("kind", "moments"), [("whole", 24), ("torn", 10)])
def test_killed_at_every_moment_no_letter_is_lost_and_none_told_twice_and_all_is_answered(tmp_path, kind, moments):
    root = tmp_path / "ada"
    root.mkdir()
    asyncio.run(send(root))
    before = b""
    for at in range(1, moments + 1):
        done = life(root, at, kind)
        assert done.returncode == -signal.SIGKILL or done.stdout == "done\n", done.stderr
        content = (root / "ada.jsonl").read_bytes() if (root / "ada.jsonl").exists() else b""
        assert content.startswith(before), "no line that was whole is ever changed"
        before = content[: content.rfind(b"\n") + 1]
    assert life(root, 0, kind).stdout == "done\n"
    lines = lines_of(root)
    told = [id for line in lines for id in line.get("injected", ())]
    assert sorted(told) == sorted(f"mail:m{number}" for number in range(LETTERS))
    steps = [line["type"] for line in lines if line["type"] in {"user", "assistant"}]
    assert steps[-1] == "assistant", "what was told last was answered"
    assert [line["type"] for line in lines].count("compact") >= 5
    for line in lines:
        if line["type"] == "compact":
            assert_whole(line["messages"])
    assert asyncio.run(unread(root)) == []
    made = Conversation.load(root / "ada.jsonl", Prefix.build({"model": "m"}))
    assert not made.owes_answer and made.delivered_ids(told) == set(told)
    assert len(read_history(root / "ada.jsonl").items) < 20 < len(steps)


async def unread(root: Path) -> list[InboxEntry]:
    return list(await inbox_of(root).unread())


def assert_whole(messages: list[dict]) -> None:
    """Every call among the messages of a compaction has its result, and every result its call."""
    calls = [b["id"] for m in messages for b in m["content"] if b["type"] == "tool_use"]
    assert calls == [b["tool_use_id"] for m in messages for b in m["content"] if b["type"] == "tool_result"]
    assert messages[0]["role"] == "user" and messages[1]["role"] == "assistant"
