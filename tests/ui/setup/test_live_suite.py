"""The live suite runs as it will against a real service: here a loopback model is the service."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as Xml
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, ScriptedReply
from teamwright.views.live_check_plan import TOOL
from tests.live.service import NO_KEY, NOT_ASKED, UNNAMED, models
from tests.support.live_check_service import purpose, sound
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S
from tests.ui.program import KEY

pytestmark = [pytest.mark.promise("K13"), pytest.mark.slow]

ROOT = Path(__file__).parents[3]
WORD = "zinnia"
NUMBERS = Answer("\n".join(f"number {n}" for n in range(4_000)) + " nine hundred")


def who(body: dict) -> str:
    return teammate_of(body) or "lead"


def said(body: dict) -> str:
    return json.dumps(body["messages"])


def results(body: dict) -> list[str]:
    """The calls that were answered, by tool."""
    blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
    names = {b["id"]: b["name"] for b in blocks if b["type"] == "tool_use"}
    return [names[b["tool_use_id"]] for b in blocks if b["type"] == "tool_result"]


def is_live_check(body: dict) -> bool:
    """Whether `doctor --live` asks: with its tool, or for one of its other checks."""
    return purpose(body) != "calls" or any(tool["name"] == TOOL for tool in body.get("tools", ()))


def plays(body: dict) -> ScriptedReply:
    """A model that does as it is told, by the words of the prompts."""
    text, done = said(body), results(body)
    if is_live_check(body):
        return sound(body)
    if who(body) != "lead":
        return member(who(body), text, done)
    if "in small letters: ready" in text:
        return Answer("ready")
    if "five times" in text:
        return Answer("Again.", tools=[("Read", {"file_path": "word.txt"})])
    if "Read the file word.txt and" in text:
        return Answer(WORD) if done else Answer(tools=[("Read", {"file_path": "word.txt"})])
    if "Count from 1 to 900" in text:
        return NUMBERS
    if "Do not run it again" in text:
        return Answer(WORD if f"Remember the word {WORD}" in text else "I do not know.")
    if "exactly this command" in text:
        command = re.search(r"sh -c '[^']*'", text)
        assert command is not None
        return Answer(tools=[("Bash", {"command": command[0], "timeout": 300_000, "description": "wait"})])
    return lead(text, done)


def lead(text: str, done: list[str]) -> Answer:
    if "TaskCreate" not in done:
        return Answer(tools=[("TaskCreate", {"subject": "find the word", "description": "in word.txt"})])
    if "Agent" not in done:
        about = {"description": "a part", "subagent_type": "general-purpose"}
        return Answer(
            tools=[("Agent", {**about, "name": name, "prompt": f"You are {name}."}) for name in ("bob", "ann")]
        )
    return Answer(WORD if f"says {WORD}" in text else "I wait.")


def member(name: str, text: str, done: list[str]) -> Answer:
    other = "bob" if name == "ann" else "ann"
    if f"{other} says {WORD}" in text:
        told = {"to": "lead", "message": f"{name} says {WORD}", "summary": "the word"}
        return Answer("Done.") if "SendMessage" in done else Answer(tools=[("SendMessage", told)])
    if "belongs to" in text:
        return Answer("I wait.")
    steps = (
        ("TaskUpdate", {"taskId": "1", "status": "in_progress"}),
        ("Read", {"file_path": "word.txt"}),
        ("TaskUpdate", {"taskId": "1", "status": "completed"}),
        ("SendMessage", {"to": other, "message": f"{name} says {WORD}", "summary": "the word"}),
    )
    return Answer(tools=[steps[len(done)]]) if len(done) < len(steps) else Answer("Done.")


def suite(tmp_path: Path, *flags: str, **env: str) -> tuple[dict[str, str], str]:
    """How each test of the suite ended, and all that was printed."""
    report = tmp_path / "report.xml"
    options = [*flags, "-v", "-rs", "-p", "no:cacheprovider", "-p", "no:xdist", "--basetemp", str(tmp_path / "b")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/live", *options, f"--junitxml={report}", "-W", "default"],
        cwd=ROOT,
        env=os.environ | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=3 * WAIT_S,
        check=False,
    )
    ended: dict[str, str] = {}
    for case in Xml.parse(report).iter("testcase"):
        child = next((one.tag for one in case if one.tag in ("failure", "error", "skipped")), "passed")
        ended[case.get("name", "")] = child
    return ended, done.stdout + done.stderr


@pytest.mark.slow
def test_every_test_of_the_suite_passes_against_a_service_that_does_as_it_is_told(tmp_path):
    with LoopbackModel.in_thread(plays) as server:
        ended, out = suite(tmp_path, TEAMWRIGHT_LIVE="1", ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=server.url)
        assert server.bodies
    assert len(ended) == 7
    assert set(ended.values()) == {"passed"}, out
    assert KEY not in out


@pytest.mark.slow
def test_a_service_that_answers_nonsense_fails_every_test_that_asks_it_for_something(tmp_path):
    with LoopbackModel.in_thread(["Nonsense."]) as server:
        env = {"TEAMWRIGHT_LIVE": "1", "TEAMWRIGHT_LIVE_MODEL": "ollama/small", "OLLAMA_HOST": server.url}
        ended, out = suite(tmp_path, "-k", "not killed and not cancelled", **env)
    assert "each run at most" in out
    assert len(ended) == 5
    assert set(ended.values()) == {"failure"}


def test_it_is_skipped_with_a_sentence_and_asks_nobody_unless_it_is_asked_for(tmp_path):
    with LoopbackModel.in_thread() as server:
        ended, out = suite(tmp_path, ANTHROPIC_API_KEY=KEY, ANTHROPIC_BASE_URL=server.url)
        assert server.requests == []
    assert set(ended.values()) == {"skipped"}
    assert NOT_ASKED in " ".join(out.split())


@pytest.mark.parametrize(("key", "sentence"), [("", NO_KEY), *UNNAMED.items()])
def test_without_a_key_that_it_can_use_it_says_what_to_set(tmp_path, key, sentence):
    ended, out = suite(tmp_path, TEAMWRIGHT_LIVE="1", **({key: KEY} if key else {}))
    assert set(ended.values()) == {"skipped"}
    assert sentence[:60] in " ".join(out.split())


def test_a_small_model_of_each_service_whose_key_is_set_is_tried_unless_one_is_named():
    keys = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "GEMINI_API_KEY": " ", "GOOGLE_API_KEY": KEY}
    assert models(keys) == ["haiku", "openai/gpt-6-luna", "google/gemini-3.8-flash"]
    assert models(keys | {"TEAMWRIGHT_LIVE_MODEL": "ollama/a, vllm/b"}) == ["ollama/a", "vllm/b"]
    assert models({}) == []
