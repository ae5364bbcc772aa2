"""A team of several vendors' models, through the real program: each member speaks its own service's API."""

import json
import os
import subprocess
import sys

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.support import preloaded
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S

MEMBERS = {
    "olga": "openai/gpt-6.1-sol",
    "gina": "google/gemini-3.8-flash",
    "bess": "bedrock/eu.anthropic.claude-sonnet-5-5-v1:0",
    "cora": "house/qwen3-coder",
}
PRICES = {MEMBERS[name]: {"usd_in": 1, "usd_out": 4} for name in ("bess", "cora")}
"""The catalogue has no price of these; a call may name no model of unknown price."""

PATHS = {
    "olga": "/v1/responses",
    "gina": "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse",
    "bess": "/model/eu.anthropic.claude-sonnet-5-5-v1%3A0/converse-stream",
    "cora": "/gateway/v4/chat/completions",
}
KEYS = {
    "ANTHROPIC_API_KEY": "sk-ant-0000-SECRET-1",
    "OPENAI_API_KEY": "sk-oa-0000-SECRET-2",
    "GEMINI_API_KEY": "AIza-0000-SECRET-3",
    "AWS_ACCESS_KEY_ID": "AKIA0000EXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "aws-0000-SECRET-4",
    "HOUSE_KEY": "house-0000-SECRET-5",
}
HELD = {
    "olga": "sk-oa-0000-SECRET-2",
    "gina": "AIza-0000-SECRET-3",
    "bess": "AKIA0000EXAMPLE",
    "cora": "house-0000-SECRET-5",
}


def who(body):
    return teammate_of(body) or "team-lead"


class Players:
    """Answers by what was asked, whatever API it was asked in. The service of `olga` is limited once."""

    def __init__(self, members):
        self.members = members
        self.limited = set()

    def __call__(self, body):
        name, text = who(body), json.dumps(body)
        if name == "team-lead":
            return self.lead(text)
        if name == "olga" and name not in self.limited:
            self.limited.add(name)
            return Status(429, retry_after=0.05)
        if "README.md" not in text:
            return Answer(
                "I look.", tools=[("Glob", {"pattern": "*.md"}), ("Read", {"file_path": "main.py"})], thinking="Hm."
            )
        if f"WORD-{name}" not in text:
            send = {"to": "lead", "message": f"WORD-{name}", "summary": "the word"}
            return Answer(tools=[("SendMessage", send)])
        return Answer("Done.")

    def lead(self, text):
        if "Say the word" not in text:
            return Answer(tools=[("Agent", self.spawn(name, model)) for name, model in self.members.items()])
        if all(f"WORD-{name}" in text for name in self.members):
            return Answer("FINAL: all words are here.")
        return Answer("I wait for the team.")

    def spawn(self, name, model):
        about = {"description": f"start {name}", "subagent_type": "general-purpose"}
        return {**about, "prompt": "Say the word.", "name": name, "model": model}


@pytest.fixture
def play(repo, tmp_path):
    """A run of the program with these members; the server that heard it, and the state root."""

    def run(members):
        home = tmp_path / "home"
        home.mkdir()
        with LoopbackModel.in_thread(Players(members)) as server:
            own = {"base_url": f"{server.url}/gateway/v4", "api": "openai-chat", "key_env": "HOUSE_KEY"}
            (home / "settings.json").write_text(json.dumps({"providers": {"house": own}, "prices": PRICES}))
            env = (
                os.environ
                | KEYS
                | {
                    "TEAMWRIGHT_HOME": str(home),
                    "ANTHROPIC_BASE_URL": server.url,
                    "OPENAI_BASE_URL": f"{server.url}/v1",
                    "GOOGLE_GEMINI_BASE_URL": server.url,
                    "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": server.url,
                    "AWS_REGION": "eu-central-1",
                }
            )
            command = [sys.executable, "-m", "teamwright", "-p", "Gather the words.", "--output-format", "json"]
            options = {"cwd": repo, "env": env, "text": True, "stdin": subprocess.DEVNULL}
            done = preloaded.run(command, timeout=WAIT_S, **options)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), server, home

    return run


def calls_to(server, path):
    return [request for request in server.requests if request.path == path]


@pytest.mark.slow_after(1)
@pytest.mark.promise("H3", "K2")
@pytest.mark.parametrize("names", [("olga",), tuple(MEMBERS)], ids=["two vendors", "five services"])
def test_a_team_of_several_vendors_works_as_one(play, names):
    result, server, home = play({name: MEMBERS[name] for name in names})
    assert result["result"] == "FINAL: all words are here."
    for name in names:
        calls = calls_to(server, PATHS[name])
        assert len(calls) >= 3, f"{name} spoke to its own service"
        assert {who(call.json) for call in calls} == {name}
        shown = " ".join(calls[0].headers.values())
        assert HELD[name] in shown
        assert not [key for key in KEYS.values() if key in shown and key != HELD[name]]
    assert {who(call.json) for call in calls_to(server, "/v1/messages")} == {"team-lead"}
    models = {member["name"]: member["model"] for member in result["team"]["members"]}
    assert {name: models[name] for name in names} == {name: MEMBERS[name] for name in names}
    everything = "".join(path.read_text("utf-8", "replace") for path in home.rglob("*") if path.is_file())
    assert "WORD-olga" in everything
    assert "SECRET" not in everything + json.dumps(result)
