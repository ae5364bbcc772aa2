"""Caps on rounds, tokens, money and time: exit code 4, what was reached, and a line that says how to go on."""

import json
import re

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.model_requests import teammate_of
from tests.ui.program import KEY, Program, error_of, told_results, words_of

PRICE = {"anthropic/claude-priced": {"usd_in": 1000.0, "usd_out": 1000.0}}


def without_end(_body: dict) -> Answer:
    return Answer("Still at it.", tools=[("Glob", {"pattern": "*"})])


def late(_body: dict) -> Answer:
    return Answer("Too late.", delay_s=60)


@pytest.mark.slow
@pytest.mark.promise("K4", "F61", "H8")
@pytest.mark.parametrize(
    ("flags", "script", "limit", "subtype", "rounds"),
    [
        (("--max-turns", "2"), without_end, "turns", "error_max_turns", 2),
        (("--maxTurns", "1"), without_end, "turns", "error_max_turns", 1),
        (("--max-tokens", "9000"), without_end, "tokens", "error_during_execution", 2),
        (("--max-budget-usd", "6"), without_end, "money", "error_max_budget_usd", 1),
        (("--timeout", "1s"), late, "time", "error_during_execution", 0),
    ],
)
def test_a_cap_ends_the_run_with_its_name_and_the_way_on(tmp_path, repo, flags, script, limit, subtype, rounds):
    with LoopbackModel.in_thread(script) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(prices=PRICE)
        done = program.run("-p", "hi", "--model", "claude-priced", "--output-format", "json", *flags)
    assert done.returncode == 4, done.stderr
    result = json.loads(done.stdout)
    assert (result["subtype"], result["is_error"], result["num_turns"]) == (subtype, True, rounds)
    assert (result["team"]["stop"], result["team"]["limit"]) == ("limit", limit)
    assert result["result"] == ("Still at it." if rounds else "the cap on time is spent")
    assert f"teamwright: the cap on {limit} is spent" in done.stderr
    larger = {"turns": "--max-turns N", "tokens": "--max-tokens N", "money": "--max-budget-usd USD"}
    assert f"{result['team']['resume_command']} {larger.get(limit, '--timeout TIME')}" in done.stderr
    if limit in ("tokens", "money"):
        assert re.search(r"is spent: [\d,.]+ of [\d,.]+ (tokens|USD) are used, the next call needs more\n", done.stderr)
    with LoopbackModel.in_thread(["Done."]) as server:
        program.url = server.url
        again = program.run("resume", result["session_id"][:8], *flags[:1], "100000")
    assert (again.returncode, again.stdout) == (0, "Done.\n"), "caps count from here"
    assert words_of(server.bodies[0]) == "hi"


@pytest.mark.promise("K4", "F61")
@pytest.mark.slow
def test_a_cap_is_the_whole_teams_and_the_members_work_counts(tmp_path, repo):
    def players(body: dict) -> Answer:
        if teammate_of(body) == "ada":
            return without_end(body)
        return Answer("I wait.") if told_results(body) else Answer(tools=[spawn])

    spawn = ("Agent", {"description": "x", "prompt": "work", "name": "ada"})
    with LoopbackModel.in_thread(players) as server:
        done = Program(repo, tmp_path / "home", server.url).run(
            "-p", "hi", "--max-tokens", "28000", "--output-format", "json"
        )
    result = json.loads(done.stdout)
    assert (done.returncode, result["team"]["limit"]) == (4, "tokens")
    spent = {m["name"]: m["usage"]["input_tokens"] + m["usage"]["output_tokens"] for m in result["team"]["members"]}
    assert set(spent) == {"team-lead", "ada"}
    assert spent["ada"] > spent["team-lead"]
    assert sum(spent.values()) == sum(result["usage"].values()), "every token is somebody's"
    assert 17_000 <= sum(spent.values()) < 28_100, "a call that does not fit is not made"


@pytest.mark.promise("K4", "F59")
@pytest.mark.slow
def test_the_number_of_agents_is_capped_and_the_lead_is_told(tmp_path, repo):
    spawns = [("Agent", {"description": "x", "prompt": "work", "name": f"m{n}"}) for n in range(4)]

    def players(body: dict) -> Answer:
        if teammate_of(body).startswith("m"):
            return Answer("Here.")
        return Answer("Done.") if told_results(body) else Answer(tools=spawns)

    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.settings(limits={"members": 2})
        done = program.run("-p", "hi")
    assert done.returncode == 0, done.stderr
    lead = [body for body in server.bodies if not teammate_of(body)]
    outcomes = [r.get("is_error", False) for r in told_results(lead[1])]
    assert sorted(outcomes) == [False, False, True, True]


@pytest.mark.finding("M4")
@pytest.mark.promise("K4")
def test_a_headless_run_says_first_which_caps_it_has_by_default_and_which_flags_raise_them(tmp_path, repo):
    with LoopbackModel.in_thread() as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run("-p", "hi", "--max-tokens", "100000")
    said = "default caps: 200 model calls of the lead and of each agent, 2 h, 20 USD"
    assert done.stderr.startswith(f"teamwright: {said} (raise: --max-turns --timeout --max-budget-usd)"), done.stderr


@pytest.mark.promise("H10", "K4")
def test_an_unknown_price_is_called_unknown_and_never_nothing(tmp_path, repo):
    with LoopbackModel.in_thread() as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run("-p", "hi", "--model", "claude-of-tomorrow", "--output-format", "json")
    assert json.loads(done.stdout)["total_cost_usd"] is None
    assert "price unknown" in done.stderr


# ── the report ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("K14")
@pytest.mark.slow
def test_the_report_holds_the_answer_its_receipts_the_team_and_the_way_on(tmp_path, repo):
    def players(body: dict) -> Answer:
        if teammate_of(body) == "ada":
            done = told_results(body)
            return Answer("Counted.") if done else Answer(tools=[("Bash", {"command": "wc -l < main.py"})])
        results = told_results(body)
        if not results:
            task = ("TaskCreate", {"subject": "count | lines", "description": "d"})
            return Answer(tools=[task, ("Agent", {"description": "x", "prompt": "count", "name": "ada"})])
        if "Counted." not in words_of(body):
            return Answer("I wait.")
        return Answer("main.py has 1 line [c3].")

    with LoopbackModel.in_thread(players) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "hi", "--report", "out/report.md", "--verbose")
        assert (done.returncode, error_of(done)[0]) == (2, "usage"), "a report that cannot be written is an error"
        assert not server.requests
        (repo / "out").mkdir()
        done = Program(repo, tmp_path / "home", server.url).run("-p", "hi", "--report", "out/report.md")
    assert done.returncode == 0, done.stderr
    text = (repo / "out" / "report.md").read_text()
    for heading in ("# Report", "## Receipts", "## Team", "## Tasks", "## Messages", "## Resume"):
        assert heading in text.split("\n")
    receipt = text.partition("### c3")[2]
    assert re.search(r"Bash by ada, [0-9.]+ s, done\n\n```sh\nwc -l < main.py\n```\n\n```\n1\n```", receipt), receipt
    assert "| ada |" in text
    assert "count \\| lines" in text
    assert re.search(r"`teamwright resume [0-9a-f]{8}`", text)
    assert KEY not in text
    assert not list((repo / "out").glob(".*")), "no draft is left"
