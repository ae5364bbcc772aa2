"""A team on a local server whose window has 8,000 tokens, and that refuses longer prompts in its engine's words."""

import json

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from tests.support.model_requests import teammate_of
from tests.ui.program import Program

WINDOW = 8_000
ENGINES = {
    "vllm": "This model's maximum context length is {window} tokens. However, you requested {asked} tokens "
    "({prompt} in the messages, {answer} in the completion).",
    "llama.cpp": "the request exceeds the available context size. "
    "try increasing the context size or enable context shift",
}


class SmallServer:
    """Plays a lead and a member that read more files than fit into the window; the lead starts the member first."""

    def __init__(self, words, repo, window=WINDOW, files=9):
        self.words, self.repo, self.window, self.files = words, repo, window, files
        self.read = {"team-lead": 0, "ada": 0}
        self.refused, self.longest = 0, 0

    def __call__(self, body):
        prompt, answer = len(json.dumps(body)) // 4, body["max_tokens"]
        if prompt + answer > self.window:
            self.refused += 1
            return Status(
                400, self.words.format(window=self.window, asked=prompt + answer, prompt=prompt, answer=answer)
            )
        self.longest = max(self.longest, prompt + answer)
        usage = {"input_tokens": prompt, "output_tokens": 20}
        if "answer with the summary alone" in json.dumps(body["messages"][-1]):
            return Answer("Files were read; more are to be read.", usage=usage)
        name = teammate_of(body) or "team-lead"
        self.read[name] += 1
        number = self.read[name]
        if name == "team-lead" and number == 1:
            start = {
                "description": "start ada",
                "subagent_type": "general-purpose",
                "prompt": "Read all.",
                "name": "ada",
            }
            return Answer(tools=[("Agent", start)], usage=usage)
        if number <= self.files:
            return Answer(tools=[("Read", {"file_path": str(self.repo / f"f{number}.txt")})], usage=usage)
        return Answer(f"DONE-{name}", usage=usage)


def play(tmp_path, repo, players, window=WINDOW):
    for number in range(12):
        (repo / f"f{number}.txt").write_text(f"line {number} of some words\n" * 90)
    home = tmp_path / "home"
    listed = [{"id": "small", "max_model_len": window}]
    with LoopbackModel.in_thread(players, models=listed) as server:
        given = tmp_path / "s.json"
        given.write_text(json.dumps({"providers": {"house": {"base_url": server.url, "api": "openai-chat"}}}))
        program = Program(repo, home, env={"ANTHROPIC_API_KEY": ""})
        flags = ("--model", "house/small", "--settings", str(given), "--output-format", "json", "--verbose")
        return program.run("-p", "Read all.", *flags)


@pytest.mark.slow_after(1)
@pytest.mark.finding("M11")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_team_works_in_a_window_of_8000_tokens(tmp_path, repo, engine):
    players = SmallServer(ENGINES[engine], repo)
    done = play(tmp_path, repo, players)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["result"], found["subtype"]) == ("DONE-team-lead", "success")
    assert players.read["ada"] > players.files, "the member came to its end too"
    assert players.longest <= WINDOW
    assert "continues from a summary" in done.stderr


def test_a_team_works_in_a_window_of_4096_tokens(tmp_path, repo):
    players = SmallServer(ENGINES["llama.cpp"], repo, 4_096)
    done = play(tmp_path, repo, players, 4_096)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == "DONE-team-lead"
    assert players.longest <= 4_096


@pytest.mark.finding("M11")
def test_a_window_that_is_too_small_for_the_tools_is_an_error_that_says_what_to_do(tmp_path, repo):
    done = play(tmp_path, repo, SmallServer(ENGINES["vllm"], repo, 1_000), 1_000)
    assert done.returncode != 0
    assert "a window of 1,000 tokens is too small" in done.stderr
    assert "give the server a window of" in done.stderr


class DigitServer:
    """Counts a token for each digit and for four other bytes, and says in its refusals how long the prompt was."""

    def __init__(self, tells: bool) -> None:
        self.tells = tells
        self.refused, self.answered = 0, 0

    def __call__(self, body):
        text = json.dumps({key: body[key] for key in ("messages", "tools") if key in body})
        digits = sum(map(text.count, "0123456789"))
        prompt = digits + (len(text) - digits) // 4
        if prompt + body["max_tokens"] > 2 * WINDOW:
            self.refused += 1
            count = f" ({prompt} tokens)" if self.tells else ""
            return Status(400, f"request{count} exceeds the available context size")
        usage = {"input_tokens": prompt, "output_tokens": 20}
        if "answer with the summary alone" in json.dumps(body["messages"][-1]):
            return Answer("A file of numbers is read.", usage=usage)
        self.answered += 1
        if self.answered == 1:
            return Answer(tools=[("Read", {"file_path": "numbers.txt"})], usage=usage)
        return Answer("READ", usage=usage)


@pytest.mark.finding("R7")
@pytest.mark.parametrize("tells", [True, False], ids=["with its count", "without a count"])
def test_a_result_of_digits_that_a_server_refuses_is_cut_and_the_turn_goes_on(tmp_path, repo, tells):
    (repo / "numbers.txt").write_text("".join(f"{n:012}\n" for n in range(7_000)))
    server = DigitServer(tells)
    done = play(tmp_path, repo, server, 2 * WINDOW)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == "READ"
    assert 1 <= server.refused <= 4
