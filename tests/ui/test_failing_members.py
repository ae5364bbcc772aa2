"""Runs whose members or sub-agents fail: the exit code, the sums, and the advice."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.support.model_requests import teammate_of
from tests.ui.program import Program

START = {"description": "help", "subagent_type": "general-purpose", "prompt": "Help with it."}


def played(tmp_path, repo, helper, *calls, agents=""):
    """A headless run whose lead makes these calls of Agent, and whose helpers get this reply; result and server."""

    def script(body):
        text = json.dumps(body)
        helps = teammate_of(body) or "Help with it." in text[-9000:]
        if helps and '"name": "Agent"' not in json.dumps(body["messages"]):
            return helper
        done = json.dumps(body["messages"]).count('"tool_result"')
        return Answer(tools=[("Agent", calls[done])]) if done < len(calls) else Answer("FINAL")

    with LoopbackModel.in_thread(script) as server:
        program = Program(repo, tmp_path / "home", env={"ANTHROPIC_BASE_URL": server.url})
        types = ("--agents", agents) if agents else ()
        done = program.run("-p", "Do it.", "--output-format", "json", *types)
    assert done.stdout, done.stderr
    return done, json.loads(done.stdout), server


@pytest.mark.slow_after(1)
@pytest.mark.finding("M14")
@pytest.mark.parametrize("status", [401, 404, 413])
def test_a_run_whose_members_all_failed_is_no_success(tmp_path, repo, status):
    done, found, _ = played(tmp_path, repo, Status(status, "no"), {**START, "name": "ada"})
    assert done.returncode == 5
    assert (found["subtype"], found["is_error"]) == ("error_during_execution", True)
    assert "every member failed: ada" in found["team"]["error"]["what"]
    assert [one["state"] for one in found["team"]["members"]] == ["lead", "failed"]


@pytest.mark.finding("M7")
def test_the_use_of_sub_agents_is_their_owners_and_members_add_up_to_the_run(tmp_path, repo):
    done, found, _ = played(tmp_path, repo, Answer("Helped."), START)
    assert done.returncode == 0, done.stderr
    for count, total in found["usage"].items():
        assert sum(one["usage"][count] for one in found["team"]["members"]) == total


@pytest.mark.finding("M7")
def test_no_retry_is_advised_for_a_request_that_was_refused(tmp_path, repo):
    _, _, server = played(tmp_path, repo, Status(400, "bad request"), START)
    told = json.dumps(server.bodies[-1]["messages"])
    assert "Another try would end in the same way" in told
    assert "Call Agent once more" not in told


@pytest.mark.finding("M7")
@pytest.mark.parametrize("model", ["no-such-model", "claude-no-such"])
@pytest.mark.slow_after(1)
def test_an_unknown_model_in_a_call_leaves_the_price_of_the_run_known(tmp_path, repo, model):
    done, found, _ = played(tmp_path, repo, Status(404, "no such model"), {**START, "model": model})
    assert found["total_cost_usd"] is not None, done.stderr


@pytest.mark.finding("M7")
def test_a_model_that_a_gateway_answers_for_and_no_one_priced_is_refused_in_a_call(tmp_path, repo):
    calls = {**START, "model": "claude-sonet"}, {**START, "name": "ada", "model": "claude-sonet"}
    done, found, server = played(tmp_path, repo, Answer("Helped."), *calls)
    assert found["total_cost_usd"] is not None, done.stderr
    assert all(body["model"] != "claude-sonet" for body in server.bodies)
    told = json.dumps(server.bodies[-1]["messages"])
    assert told.count("the price of anthropic/claude-sonet is not known") == 2
    assert "did you mean" in told


@pytest.mark.finding("M7")
def test_a_model_that_an_agent_type_names_needs_no_known_price(tmp_path, repo):
    types = json.dumps({"helper": {"description": "Helps.", "prompt": "Help.", "model": "claude-own"}})
    done, found, server = played(tmp_path, repo, Answer("Helped."), {**START, "subagent_type": "helper"}, agents=types)
    assert done.returncode == 0, done.stderr
    assert "claude-own" in {body["model"] for body in server.bodies} and found["total_cost_usd"] is None


@pytest.mark.finding("M9")
@pytest.mark.slow
def test_a_headless_team_does_not_wait_for_a_limit_that_is_longer_than_300_seconds(tmp_path, repo):
    done, found, _ = played(tmp_path, repo, Status(429, "quota", retry_after=400), {**START, "name": "ada"})
    assert done.returncode == 5
    assert found["team"]["cut_off"] == ["ada"]
    assert "limiting requests" in found["team"]["members"][1]["error"]
