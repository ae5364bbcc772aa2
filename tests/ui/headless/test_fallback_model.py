"""`--fallback-model`: the failures after which it is used, its reports, and who inherits it."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.support.model_requests import teammate_of
from tests.ui.program import Program, error_of

pytestmark = pytest.mark.finding("U10")

FIRST, SECOND, THIRD = "claude-opus-4-1", "claude-sonnet-4-5", "claude-haiku-4-5"


class Service:
    """A service in which some models fail with a status. It keeps the names of the called models."""

    def __init__(self, broken, answer=lambda body: "Done."):
        self.broken, self.answer = broken, answer
        self.called = []

    def __call__(self, body):
        self.called.append(body["model"])
        return self.broken.get(body["model"]) or self.answer(body)


@pytest.fixture
def run(tmp_path, repo):
    """Run the program headless against a service."""

    def run(service, *args, **settings):
        with LoopbackModel.in_thread(service, models=(FIRST, SECOND, THIRD)) as server:
            program = Program(repo, tmp_path / "home", server.url)
            program.settings(**settings)
            return program.run("-p", "Go.", "--model", FIRST, *args)

    return run


@pytest.mark.parametrize("status", [529, 500, 404, 403])
@pytest.mark.slow_after(1)
def test_a_model_that_is_not_available_is_replaced_by_the_fallback_model(run, status):
    service = Service({FIRST: Status(status)})
    done = run(service, "--fallback-model", SECOND, "--output-format", "json", retries=0)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["result"] == "Done."
    assert result["team"]["fallbacks"] == [
        {"name": "lead", "model": f"anthropic/{SECOND}", "before": f"anthropic/{FIRST}"}
    ]
    assert result["team"]["members"][0]["model"] == f"anthropic/{SECOND}"
    assert f"the fallback model anthropic/{SECOND} is used instead of anthropic/{FIRST}" in done.stderr
    assert service.called == [FIRST, SECOND]


@pytest.mark.slow
def test_fallback_models_are_used_in_their_order_and_the_last_failure_ends_the_run(run):
    service = Service({FIRST: Status(529), SECOND: Status(529)})
    args = ("--fallback-model", f"{SECOND}, {THIRD}")
    assert run(service, *args, retries=0).stdout == "Done.\n"
    assert service.called == [FIRST, SECOND, THIRD]
    service = Service({name: Status(529) for name in (FIRST, SECOND, THIRD)})
    done = run(service, *args, retries=0)
    assert service.called == [FIRST, SECOND, THIRD]
    assert done.returncode != 0 and "is overloaded (HTTP 529)" in done.stderr


@pytest.mark.slow
def test_a_service_that_fails_is_called_three_times_before_the_fallback_model(run):
    service = Service({FIRST: Status(500)})
    assert run(service, "--fallback-model", SECOND).stdout == "Done.\n"
    assert service.called == [FIRST, FIRST, FIRST, SECOND]


@pytest.mark.parametrize("status", [401, 400])
@pytest.mark.slow_after(1)
def test_a_refused_key_and_a_refused_request_use_no_fallback_model(run, status):
    service = Service({FIRST: Status(status)})
    assert run(service, "--fallback-model", SECOND, retries=0).returncode != 0
    assert service.called == [FIRST]


@pytest.mark.slow
def test_an_event_names_the_fallback_model_and_later_calls_use_it(run):
    answers = iter([Answer(tools=[("Bash", {"command": "pwd"})]), "Done."])
    service = Service({FIRST: Status(529)}, lambda body: next(answers))
    args = ("--output-format", "stream-json", "--verbose")
    done = run(service, "--fallback-model", SECOND, *args, retries=0)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    events = [line["event"] for line in lines if line.get("subtype") == "team_event"]
    [change] = [event for event in events if event["type"] == "model_changed"]
    assert (change["member"], change["model"], change["by"]) == ("team-lead", f"anthropic/{SECOND}", "fallback")
    assert service.called == [FIRST, SECOND, SECOND]


@pytest.mark.parametrize("backend", ["in-process", "detached"])
@pytest.mark.slow
def test_members_and_sub_agents_inherit_the_fallback_models(run, backend):
    def answer(body):
        text = json.dumps(body["messages"])
        if teammate_of(body) == "bob":
            return "I am bob."
        if "toolu" not in text:
            call = {"description": "count", "prompt": "Say who you are.", "name": "bob", "model": THIRD}
            return Answer(tools=[("Agent", call)])
        return "Done."

    service = Service({THIRD: Status(529)}, answer)
    done = run(service, "--fallback-model", SECOND, "--output-format", "json", "--backend", backend, retries=0)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert [one["name"] for one in result["team"]["fallbacks"]] == ["bob"]
    assert {one["name"]: one["model"] for one in result["team"]["members"]}["bob"] == f"anthropic/{SECOND}"
    assert service.called.count(THIRD) == 1


@pytest.mark.parametrize(
    ("value", "words"),
    [(",", "needs the name of a model"), ("nowhere/model", '"nowhere" is not a provider')],
)
@pytest.mark.slow
def test_a_wrong_fallback_model_is_refused_at_the_start(run, value, words):
    service = Service({})
    done = run(service, "--fallback-model", value)
    assert done.returncode in {2, 3}
    assert words in "\n".join(error_of(done)[1])
    assert service.called == []


@pytest.mark.slow
def test_a_script_has_no_fallback_model(tmp_path, repo):
    script = tmp_path / "script.toml"
    script.write_text('[script]\nname = "one"\n\n[[agent.lead.turn]]\nsay = "Done."\n')
    done = Program(repo, tmp_path / "home").run(
        "-p", "Go.", "--model", f"scripted:{script}", "--fallback-model", SECOND
    )
    assert done.returncode == 2, done.stderr
    assert "no fallback model" in done.stderr
