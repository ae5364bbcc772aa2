"""What a team needs of a real service, one thing a test: `make live`."""

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from teamwright import Budget, Team
from tests.live.service import ANSWER_MOST, TOKENS_EACH, Live
from tests.ui.program import Mark

WAIT_S = 600
WORD = "zinnia"


def told(live: Live, prompt: str, *flags: str) -> tuple[int, dict[str, Any]]:
    """Exit code and result of one capped run."""
    args = ["-p", prompt, "--model", live.model, "--output-format", "json", *live.capped, *flags]
    done = live.run(*args, timeout=WAIT_S)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def secret_file(live: Live) -> Path:
    path = live.cwd / "word.txt"
    path.write_text(f"The word is {WORD}.\n")
    return path


def test_the_service_does_what_a_team_needs_of_it(live: Live):
    done = live.run("doctor", "--live", "--yes", "--json", "--model", live.model, timeout=WAIT_S)
    failed = [check for check in json.loads(done.stdout)["checks"] if check["state"] == "failed"]
    assert (done.returncode, failed) == (0, [])


def test_one_turn_is_answered_and_counted(live: Live):
    code, result = told(live, "Answer with one word, in small letters: ready")
    assert (code, result["subtype"], result["num_turns"]) == (0, "success", 1)
    assert "ready" in result["result"].lower()
    assert result["usage"]["input_tokens"] + result["usage"]["cache_read_input_tokens"] > 1_000
    assert result["usage"]["output_tokens"] > 0


def test_a_tool_is_called_and_its_result_is_read(live: Live):
    secret_file(live)
    code, result = told(live, "Read the file word.txt and answer with the word that it tells, alone.")
    assert (code, result["permission_denials"]) == (0, [])
    assert WORD in result["result"].lower()
    assert result["num_turns"] >= 2


def test_a_team_of_two_shares_a_task_and_writes_to_each_other(live: Live):
    secret_file(live)
    code, result = told(
        live,
        "Do this with a team, exactly so. First create one task with the subject: find the word. Then start two "
        "teammates, ann and bob, and tell both: try to claim task 1. Whoever has it reads the file word.txt, sets task "
        "1 to completed, and then sends the word to the other with SendMessage. The other, once it has the word, sends "
        "it to the lead with SendMessage. Do not read the file yourself. When you were told the word, answer with it.",
        "--permission-mode",
        "acceptEdits",
    )
    team = result["team"]
    assert code == 0
    assert WORD in result["result"].lower()
    assert {"ann", "bob"} <= {member["name"] for member in team["members"]}
    assert team["tasks_done"] >= 1
    assert team["messages"]["sent"] >= 2
    assert team["messages"]["undelivered"] == 0


def test_a_session_that_was_killed_goes_on_with_what_it_knew(live: Live, tmp_path: Path):
    mark = Mark(tmp_path / "mark")
    prompt = (
        f"Remember the word {WORD}. Then run exactly this command, in the foreground, with a timeout of 300 seconds: "
        f"sh -c 'echo $$ > {mark.path}; exec sleep 240'"
    )
    capped = live.capped
    # The mark is outside of the session's directories, and its pid is that of this machine: no sandbox.
    free = ["--permission-mode", "bypassPermissions", "--sandbox", "off"]
    args = ["-p", prompt, "--model", live.model, *free, *capped]
    process = live.start(*args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        command = int(mark.wait(240))
    finally:
        process.kill()
        process.wait(timeout=20)
    os.kill(command, signal.SIGKILL)
    code, result = told(live, "Do not run it again. Answer with the word that you were to remember, alone.", "-c")
    assert code == 0
    assert WORD in result["result"].lower()


def test_a_cap_ends_the_run_and_it_can_go_on(live: Live):
    secret_file(live)
    most = 14_000
    args = ["--model", live.model, "--output-format", "json", "--max-tokens", str(most)]
    prompt = "Read word.txt five times, one call after the other, each in an answer of its own; then say: done."
    done = live.run("-p", prompt, *args, timeout=WAIT_S)
    result = json.loads(done.stdout)
    used = result["usage"]
    assert (done.returncode, result["team"]["limit"]) == (4, "tokens")
    assert "teamwright resume " in done.stderr
    assert sum(used[key] for key in used if key.endswith("_tokens")) <= most


async def test_an_answer_is_cancelled_in_the_middle(live: Live, monkeypatch):
    for name, value in live.environment.items():
        monkeypatch.setenv(name, value)
    extra = live.cwd.parent / "extra.json"
    extra.write_text(json.dumps({"max_output_tokens": ANSWER_MOST}))
    team = Team("cancelled", model=live.model, cwd=live.cwd, budget=Budget(tokens=TOKENS_EACH), settings_file=extra)
    async with asyncio.timeout(WAIT_S), team:
        run = team.run("Count from 1 to 900 in words, a number a line. Use no tool.")
        async for event in run.events():
            if event.KIND == "text_delta":
                run.cancel("seen enough")
                break
        result = await run
    assert (result.ok, result.stop) == (False, "cancelled")
    assert "nine hundred" not in (result.text or "").lower()
