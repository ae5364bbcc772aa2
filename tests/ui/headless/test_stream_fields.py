"""The lines of stream-json have the fields that docs/reference/clients.md lists, and no others."""

import json
import re
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.ui.program import Program

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "clients.md"
EVERY_LINE = {"type", "session_id", "uuid"}
SOMETIMES = {"agent_id", "isReplay", "origin", "structured_output", "errors"}


def listed(kind: str) -> set[str]:
    """Return the fields that the page lists for a kind of line, with those of its message."""
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| {kind} |"))
    return {word for code in re.findall(r"`([^`]*)`", row.split("|")[2]) for word in code.split()}


def kind_of(line: dict) -> str:
    return f"`{line['type']}`" + (f", `{line['subtype']}`" if line["type"] == "system" else "")


@pytest.fixture
def lines(tmp_path, repo) -> list[dict]:
    turns = [Answer("Reading.", tools=[("Read", {"file_path": "main.py"})]), "Done."]
    flags = "--output-format stream-json --input-format stream-json --include-partial-messages --replay-user-messages"
    prompt = json.dumps({"type": "user", "uuid": "u1", "message": {"role": "user", "content": "hi"}})
    with LoopbackModel.in_thread(turns) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(outputStyle="")
        done = program.run("-p", *flags.split(), stdin=f"{prompt}\n")
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.finding("U9")
def test_each_line_has_the_listed_fields(lines):
    kinds = {kind_of(line) for line in lines}
    assert kinds == {
        "`system`, `init`",
        "`system`, `team_event`",
        "`user`",
        "`assistant`",
        "`stream_event`",
        "`result`",
    }
    for line in lines:
        fields = listed(kind_of(line))
        inner = set(line.get("message", {}))
        own = set(line) - EVERY_LINE - {"subtype"}
        assert set(line) >= EVERY_LINE
        assert own | inner <= fields | {"team", "event", "message"}, (kind_of(line), (own | inner) - fields)
        assert fields - {"message", "subtype"} <= own | inner | SOMETIMES | {"type"}, (
            kind_of(line),
            fields - own - inner,
        )


@pytest.mark.finding("U9")
def test_the_result_has_the_usage_of_each_model(lines):
    result, init = lines[-1], lines[0]
    [(model, usage)] = result["modelUsage"].items()
    assert init["model"].endswith(model) and init["output_style"] == "default"
    assert usage["inputTokens"] == result["usage"]["input_tokens"] > 0
    assert usage["outputTokens"] == result["usage"]["output_tokens"] > 0
    assert usage["costUSD"] == pytest.approx(result["total_cost_usd"])
    assert "errors" not in result


@pytest.mark.finding("U9")
@pytest.mark.slow
def test_a_run_that_is_not_done_says_why(tmp_path, repo):
    turns = [Answer("Reading.", tools=[("Read", {"file_path": "main.py"})])] * 3
    with LoopbackModel.in_thread(turns) as server:
        done = Program(repo, tmp_path / "home", server.url).run(
            "-p", "hi", "--output-format", "json", "--max-turns", "1"
        )
    result = json.loads(done.stdout)
    assert result["subtype"] == "error_max_turns"
    assert len(result["modelUsage"]) == 1
    [reason] = result["errors"]
    assert reason and reason in done.stderr
