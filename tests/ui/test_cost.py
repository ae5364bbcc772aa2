"""`teamwright cost` on real runs, and a team that its budget stops in the middle and a larger one lets finish."""

import json
import re
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, ErrorEvent
from tests.support.model_requests import teammate_of
from tests.ui.program import Program, error_of, told_results

PRICE = {"anthropic/claude-priced": {"usd_in": 3.0, "usd_out": 15.0}}


def who(body: dict) -> str:
    return teammate_of(body) or "lead" if "Agent" in {tool["name"] for tool in body["tools"]} else "sub"


def players(body: dict) -> Answer:
    """The lead spawns ada for a task and has a sub-agent look; ada takes the task, works at it and completes it."""
    done = [result for result in told_results(body) if not result.get("is_error")]
    match who(body):
        case "ada":
            steps = [("Glob", {"pattern": "*"})] * 4 + [("TaskUpdate", {"taskId": "1", "status": "completed"})]
            claim = ("TaskUpdate", {"taskId": "1", "status": "in_progress", "owner": "ada"})
            made = sum(
                block["type"] == "tool_use"
                for message in body["messages"]
                if message["role"] == "assistant"
                for block in message["content"]
            )
            plan = [claim, *steps]
            return Answer("Working.", tools=[plan[made]]) if made < len(plan) else Answer("Counted.")
        case "sub":
            return Answer("Looked.")
        case _:
            if not done:
                task = ("TaskCreate", {"subject": "count the files", "description": "d"})
                team = ("TeamCreate", {"team_name": "crew"})
                return Answer(tools=[team, task])
            if "Looked." not in json.dumps(body["messages"]):
                spawn = ("Agent", {"description": "x", "prompt": "count", "name": "ada"})
                return Answer(tools=[spawn, ("Agent", {"description": "x", "prompt": "look"})])
            return Answer("All is done." if "Counted." in json.dumps(body["messages"]) else "I wait.")


def cost(program: Program, *args: str) -> dict:
    done = program.run("cost", *args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tokens(line: dict) -> int:
    return line["tokens_in"] + line["tokens_out"]


def all_tokens(lines: list[dict]) -> int:
    return sum(tokens(line) + all_tokens(line.get("below", [])) for line in lines)


@pytest.fixture
def program(tmp_path: Path, repo: Path) -> Program:
    made = Program(repo, tmp_path / "home")
    made.settings(prices=PRICE)
    return made


@pytest.mark.slow
@pytest.mark.promise("H10", "F61", "K4", "D8")
def test_a_team_that_its_budget_stops_in_the_middle_is_resumed_with_a_larger_one_and_finishes(program: Program):
    with LoopbackModel.in_thread(players) as server:
        program.url = server.url
        first = program.run("-p", "count", "--max-tokens", "32000", "--output-format", "json")
        assert first.returncode == 4, first.stderr
        result = json.loads(first.stdout)
        assert (result["team"]["limit"], result["team"]["resume_command"]) == ("tokens", "teamwright resume crew")
        assert [task["status"] for task in result["team"]["tasks"]] != ["completed"]
        spent = sum(result["usage"].values())
        assert spent <= 45_100
        asked = len(server.bodies)
        again = program.run("resume", "crew", "-p", "--max-tokens", "400000", "--output-format", "json")
        assert again.returncode == 0, again.stderr
        assert len(server.bodies) > asked
    result = json.loads(again.stdout)
    assert result["result"] == "All is done."
    assert [task["status"] for task in result["team"]["tasks"]] == ["completed"]
    view = cost(program, "crew")
    whole = spent + sum(result["usage"].values())
    assert tokens(view["total"]) == all_tokens(view["members"]) == whole, "both runs, to the token"


@pytest.mark.slow
@pytest.mark.promise("H10", "F61")
def test_the_cost_of_a_team_is_shown_by_member_task_and_model_and_adds_up(program: Program):
    with LoopbackModel.in_thread(players) as server:
        program.url = server.url
        run = program.run("-p", "count", "--model", "claude-priced", "--output-format", "json")
        assert run.returncode == 0, run.stderr
        live = []
    result = json.loads(run.stdout)
    for name in ("crew", result["session_id"][:8], ""):
        view = cost(program, *([name] if name else []))
        live.append(view["total"])
        assert [line["name"] for line in view["members"]] == ["lead", "ada"]
        assert len(view["members"][0]["below"]) == 1, "the sub-agent stands below its caller"
        assert [line["name"] for line in view["tasks"]] == ["1", ""]
        assert view["tasks"][0]["subject"] == "count the files"
        total = tokens(view["total"])
        assert total == all_tokens(view["members"]) == all_tokens(view["tasks"]) == all_tokens(view["models"])
        assert total == sum(result["usage"].values())
        assert view["total"]["usd"] == pytest.approx(result["total_cost_usd"])
        assert view["total"]["model_calls"] == view["members"][0]["model_calls"] + view["members"][1]["model_calls"] + 1
    shown = program.run("cost", "crew")
    lines = shown.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(re.match(r"ada +\d+ +6 ", line) for line in lines)
    assert any(line.startswith("└ ") for line in lines)
    assert any(line.startswith("#1 ") and line.endswith("count the files") for line in lines)
    assert any(line.startswith("claude-priced ") and line.endswith(" USD") for line in lines)
    program.run("teams", "rm", "crew", "--force")
    assert cost(program, "crew")["total"] == live[0], "a deleted team's log stays"


@pytest.mark.slow
@pytest.mark.promise("H10")
def test_a_price_that_is_not_known_is_called_so_and_cached_tokens_are_shown(program: Program):
    used = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 4_000, "cache_creation_input_tokens": 0}
    with LoopbackModel.in_thread([Answer("hi", usage=used)]) as server:
        program.url = server.url
        assert program.run("-p", "hi", "--model", "claude-of-tomorrow").returncode == 0
    line = cost(program)["total"]
    assert (line["usd"], line["tokens_in"], line["cached"], line["tokens_out"]) == (None, 4_010, 4_000, 5)
    assert "price unknown" in (text := program.run("cost").stdout)
    assert "4,000" in text and " 0.0000" not in text


@pytest.mark.slow
@pytest.mark.promise("H10")
def test_the_cost_since_a_time_counts_only_what_was_answered_from_then_on(program: Program):
    with LoopbackModel.in_thread(["One."]) as server:
        program.url = server.url
        program.run("-p", "hi")
    assert tokens(cost(program, "--since", "1h")["total"]) == tokens(cost(program)["total"]) > 0
    assert tokens(cost(program, "--since", "2100-01-01")["total"]) == 0
    assert "since then" in program.run("cost", "--since", "2100-01-01").stdout


@pytest.mark.slow_after(1)
@pytest.mark.parametrize(
    ("args", "slug"),
    [(("nobody",), "unknown-team"), (("--since", "soon"), "usage"), (("a", "b"), "usage")],
)
def test_what_cost_cannot_make_sense_of_is_an_error_with_the_way_on(program: Program, args, slug):
    with LoopbackModel.in_thread(["One."]) as server:
        program.url = server.url
        program.run("-p", "hi")
    done = program.run("cost", *args)
    assert done.returncode in (1, 2)
    assert error_of(done)[0] == slug
    assert not done.stdout


def test_without_any_session_cost_says_that_there_is_none(program: Program):
    done = program.run("cost")
    assert (done.returncode, error_of(done)[0]) == (2, "unknown-session")


@pytest.mark.slow
@pytest.mark.promise("H10", "F61")
def test_what_broke_is_told_apart_and_is_in_every_sum(program: Program):
    broken = ErrorEvent(answer=Answer("This breaks.", usage={"input_tokens": 1_000, "output_tokens": 1}))
    with LoopbackModel.in_thread([broken, Answer("Done.", usage={"input_tokens": 40, "output_tokens": 2})]) as server:
        program.url = server.url
        run = program.run("-p", "go", "--model", "claude-priced", "--output-format", "json")
        assert run.returncode == 0, run.stderr
    result, view = json.loads(run.stdout), cost(program)
    total = view["total"]
    assert (total["model_calls"], total["failed"], result["num_turns"]) == (1, 1, 1)
    assert total["failed_tokens"] == tokens(total) - 42 >= 1_000
    assert tokens(total) == all_tokens(view["members"]) == all_tokens(view["models"]) == sum(result["usage"].values())
    assert total["usd"] == pytest.approx(result["total_cost_usd"])
    shown = program.run("cost").stdout.splitlines()
    assert re.fullmatch(r"1 call that failed had used 1,00\d tokens, 0\.00\d+ USD: counted above\.", shown[-1])
