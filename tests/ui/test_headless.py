"""Runs without a person: where prompts come from, what stands on stdout, what is refused and who is told."""

import json
import re
import signal
import subprocess

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support.model_requests import teammate_of
from tests.support.waits import WAIT_S
from tests.ui.program import COMMAND, Program, error_of, told_results, words_of

WRITE = Answer("I write.", tools=[("Write", {"file_path": "new.txt", "content": "x"})])
COST = re.compile(r"^\d.* · 1 member · \d+ turns? · .* tokens in.*, \d+ out, .*$")


@pytest.fixture
def served(tmp_path, repo):
    """A program with a server that says `Hello.` to everything."""
    with LoopbackModel.in_thread() as server:
        program = Program(repo, tmp_path / "home", server.url)
        program.server = server
        yield program


# ── prompts ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow_after(1)
@pytest.mark.promise("K8")
@pytest.mark.parametrize(
    ("args", "stdin", "told"),
    [
        (("-p", "typed"), None, "typed"),
        (("-p",), "piped\n", "piped"),
        ((), "piped\n", "piped"),
        (("-p", "typed"), "piped\n", "piped\n\ntyped"),
        (("-p", "@ask.md"), None, "what the file asks"),
        (("-p", "--", "--not-a-flag"), None, "--not-a-flag"),
        (("typed", "-p"), None, "typed"),
        (("-p", "doctor"), None, "doctor"),
        (("-p", "ünï 漢字 🙂"), None, "ünï 漢字 🙂"),
    ],
)
def test_the_prompt_comes_from_the_argument_from_stdin_from_both_or_from_a_file(served, args, stdin, told):
    (served.cwd / "ask.md").write_text("what the file asks\n")
    done = served.run(*args, **({} if stdin is None else {"stdin": stdin}))
    assert (done.returncode, done.stdout) == (0, "Hello.\n"), done.stderr
    assert words_of(served.server.bodies[0]) == told


@pytest.mark.slow
def test_files_that_a_prompt_names_are_attached_and_what_was_piped_attaches_nothing(served):
    (served.cwd / "secret.txt").write_text("not to be sent")
    done = served.run("-p", "look at @main.py.", stdin="a log line with @secret.txt\n")
    assert done.returncode == 0
    blocks = served.server.bodies[0]["messages"][0]["content"]
    assert len(blocks) == 3
    assert "print('hello')" in blocks[1]["text"]
    assert 'path="main.py"' in blocks[1]["text"]
    assert "not to be sent" not in json.dumps(served.server.bodies)


PROMPTS = ["one", "two", [{"type": "text", "text": "three"}]]


def line_of(content) -> str:
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"


@pytest.mark.parametrize("source", ["a pipe", "a file"])
@pytest.mark.slow_after(1)
def test_several_prompts_come_a_line_each_and_each_gets_its_result(tmp_path, repo, source):
    stdin = "".join(map(line_of, PROMPTS))
    (tmp_path / "prompts.jsonl").write_text(stdin)
    flags = ("-p", "--input-format", "stream-json", "--output-format", "stream-json")
    with LoopbackModel.in_thread(["1.", "2.", "3."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        with open(tmp_path / "prompts.jsonl") as file:
            done = program.run(*flags, stdin=stdin if source == "a pipe" else file)
    assert done.returncode == 0, done.stderr
    results = [line for line in map(json.loads, done.stdout.splitlines()) if line["type"] == "result"]
    assert [(r["result"], r["num_turns"]) for r in results] == [("1.", 1), ("2.", 2), ("3.", 3)]
    assert len({r["session_id"] for r in results}) == 1
    assert words_of(server.bodies[-1]).split() == ["one", "two", "three"]


@pytest.mark.parametrize("ending", ["end of stdin", "signal"])
@pytest.mark.slow_after(1)
def test_a_program_that_waits_for_each_result_before_it_asks_again_gets_it(tmp_path, repo, ending):
    flags = ("-p", "--input-format", "stream-json", "--output-format", "stream-json")
    with LoopbackModel.in_thread(["1.", "2."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        process = program.start(*flags, stdin=subprocess.PIPE)
        for number, content in enumerate(PROMPTS[:2], 1):
            process.stdin.write(line_of(content))
            process.stdin.flush()
            result = next(line for line in map(json.loads, process.stdout) if line["type"] == "result")
            assert result["result"] == f"{number}."
        if ending == "signal":
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=WAIT_S)  # stdin stays open: it is the signal that ends it
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == (143 if ending == "signal" else 0), err
    assert '"result"' not in out, "each answer is given once"
    assert " USD" not in err, "the result line has the cost"


def test_no_prompt_at_all_is_a_wrong_call(served):
    done = served.run("-p", "--input-format", "stream-json")
    assert (done.returncode, error_of(done)[0], done.stdout) == (2, "usage", "")


# ── what stands where ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("H8", "K11")
@pytest.mark.slow
def test_text_is_the_answer_alone_and_all_else_is_on_stderr(served):
    done = served.run("-p", "hi", "--verbose")
    assert done.stdout == "Hello.\n"
    assert COST.match(done.stderr.splitlines()[-1]), done.stderr
    assert "\x1b" not in done.stdout + done.stderr


@pytest.mark.promise("H8")
@pytest.mark.slow
def test_json_is_one_object_with_the_fields_that_scripts_know(served):
    done = served.run("-p", "hi", "--output-format", "json")
    assert done.stdout.count("\n") == 1
    result = json.loads(done.stdout)
    known = "type subtype is_error duration_ms num_turns result session_id total_cost_usd usage permission_denials team"
    assert set(known.split()) <= set(result)
    assert (result["type"], result["subtype"], result["is_error"], result["result"]) == (
        "result", "success", False, "Hello.",
    )  # fmt: skip
    assert result["num_turns"] == 1
    assert result["usage"]["input_tokens"] > 0
    assert result["total_cost_usd"] > 0
    ours = "members tasks messages limit resume_command stop tasks_done tasks_open"
    assert set(ours.split()) <= set(result["team"])
    assert set(result["team"]["messages"]) == {"sent", "seen", "undelivered"}


@pytest.mark.finding("C8")
@pytest.mark.slow
def test_stream_json_has_the_fields_that_the_sdks_of_the_ecosystem_read(tmp_path, repo):
    home = tmp_path / "home"
    for name, text in {
        "commands/ship.md": "Ship it.",
        "skills/notes/SKILL.md": "---\nname: notes\ndescription: Writes notes.\n---\nWrite.",
        "agents/scout.md": "---\nname: scout\ndescription: Looks.\n---\nLook.",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    turns = [Answer("Reading.", tools=[("Read", {"file_path": "main.py"})]), "Done."]
    with LoopbackModel.in_thread(turns) as server:
        done = Program(repo, home, server.url).run("-p", "hi", "--output-format", "stream-json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    init, result = lines[0], lines[-1]
    assert {"ship", "notes"} <= set(init["slash_commands"])
    assert {"scout", "general-purpose", "Explore"} <= set(init["agents"])
    assert init["skills"] == ["notes"]
    said = [line["message"] for line in lines if line["type"] == "assistant"]
    assert [one["stop_reason"] for one in said] == ["tool_use", "end_turn"]
    assert len({one["id"] for one in said}) == 2 and all(one["id"].startswith("msg_") for one in said)
    calls = [line["event"] for line in lines if line.get("event", {}).get("type") == "model_call_ended"]
    assert [call["end"] for call in calls] == ["tool_calls", "done"]
    assert result["duration_api_ms"] == round(sum(call["seconds"] for call in calls) * 1000) > 0
    assert all(0 <= call.get("first_part_s", 0) <= call["seconds"] for call in calls)
    assert result["duration_api_ms"] <= result["duration_ms"]


@pytest.mark.finding("C8")
def test_control_requests_of_a_client_are_answered(tmp_path, repo):
    def request(number, **details):
        return {"type": "control_request", "request_id": f"r{number}", "request": details}

    sent = [
        request(1, subtype="initialize", hooks=None),
        request(2, subtype="initialize", hooks={"PreToolUse": [{"hookCallbackIds": ["h"]}]}),
        request(3, subtype="interrupt"),
        {"type": "user", "message": {"role": "user", "content": "hi"}},
    ]
    flags = ("--input-format", "stream-json", "--output-format", "stream-json", "--system-prompt", "You are a clerk.")
    with LoopbackModel.in_thread(["Done."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run(*flags, stdin="".join(json.dumps(one) + "\n" for one in sent))
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    answers = {one["response"]["request_id"]: one["response"] for one in lines if one["type"] == "control_response"}
    assert {id: one["subtype"] for id, one in answers.items()} == {"r1": "success", "r2": "error", "r3": "success"}
    assert "commands" in answers["r1"]["response"]
    assert "initialize comes first, once" in answers["r2"]["error"]
    assert (lines[-1]["type"], lines[-1]["result"]) == ("result", "Done.")
    assert server.bodies[0]["system"][0]["text"].startswith("You are a clerk.")


@pytest.mark.promise("H8")
@pytest.mark.slow
def test_stream_json_is_an_object_a_line_from_init_to_result(tmp_path, repo):
    turns = [Answer("Reading.", tools=[("Read", {"file_path": "main.py"})]), "Done."]
    with LoopbackModel.in_thread(turns) as server:
        done = Program(repo, tmp_path / "home", server.url).run(
            "-p", "hi", "--output-format", "stream-json", "--verbose"
        )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [line["type"] for line in lines if line.get("subtype") != "team_event"]
    assert kinds == ["system", "assistant", "user", "assistant", "result"]
    init, result = lines[0], lines[-1]
    assert (init["subtype"], init["cwd"], init["permissionMode"]) == ("init", str(repo), "default")
    assert {"Bash", "Read", "SendMessage"} <= set(init["tools"])
    assert {line["session_id"] for line in lines} == {result["session_id"]}
    assert len({line["uuid"] for line in lines if "uuid" in line}) == len([1 for line in lines if "uuid" in line])
    spoken = [line for line in lines if line["type"] in {"user", "assistant"}]
    assert all(line["parent_tool_use_id"] is None and "agent_id" not in line for line in spoken)
    use = spoken[0]["message"]["content"][1]
    assert spoken[1]["message"]["content"][0]["tool_use_id"] == use["id"]
    events = [line["event"]["type"] for line in lines if line.get("subtype") == "team_event"]
    assert "tool_called" in events
    assert "text_delta" not in events


@pytest.mark.slow
def test_a_reader_that_leaves_early_is_no_error(served):
    with subprocess.Popen(
        [*COMMAND, "-p", "hi", "--output-format", "stream-json", "--verbose"],
        cwd=served.cwd,
        env=served.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    ) as process:
        head = subprocess.run(["head", "-1"], stdin=process.stdout, capture_output=True, timeout=WAIT_S, check=True)
        process.stdout.close()
        err = process.stderr.read().decode()
        process.wait(timeout=WAIT_S)
    assert json.loads(head.stdout)["subtype"] == "init"
    assert process.returncode in {0, 130}, "it ended by itself, or because nobody read on"
    ours = ("default caps", "everything is saved")
    assert all(any(one in line for one in ours) or COST.match(line) for line in err.splitlines()), err


@pytest.mark.slow
def test_colour_is_never_written_off_a_terminal(served):
    served.env |= {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1", "TERM": "xterm-256color"}
    for args in (("-p", "hi", "--verbose"), ("--help",), ("doctor",), ("models",), ("-p",), ("teams",)):
        done = served.run(*args)
        assert "\x1b" not in done.stdout + done.stderr, args


@pytest.mark.slow
def test_another_encoding_of_the_terminal_is_no_crash(tmp_path, repo):
    with LoopbackModel.in_thread(["naïve — 漢字"]) as server:
        env = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        done = Program(repo, tmp_path / "home", server.url, env).run("-p", "hi")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("na")


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.promise("F44", "G2")
@pytest.mark.slow
def test_what_would_ask_is_denied_at_once_told_to_the_model_and_listed(tmp_path, repo):
    calls = [
        ("Write", {"file_path": "new.txt", "content": "x"}),
        ("Bash", {"command": "git push"}),
        ("Bash", {"command": "cat main.py"}),
    ]
    with LoopbackModel.in_thread([Answer(tools=calls), "I could not."]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "hi", "--output-format", "json")
    result = json.loads(done.stdout)
    assert (done.returncode, result["subtype"]) == (0, "success")
    denied = [(d["tool_name"], d["tool_input"]) for d in result["permission_denials"]]
    assert denied == [("Write", calls[0][1]), ("Bash", calls[1][1])]
    made = [b["id"] for b in server.bodies[1]["messages"][1]["content"]]
    assert [d["tool_use_id"] for d in result["permission_denials"]] == made[:2]
    told = told_results(server.bodies[1])
    assert [t.get("is_error", False) for t in told] == [True, True, False]
    assert "no user is present to ask" in told[0]["text"]
    assert "print('hello')" in told[2]["text"]
    assert done.stderr.count("teamwright: refused ") == 2
    assert not (repo / "new.txt").exists()


@pytest.mark.slow_after(3)
@pytest.mark.parametrize(
    ("flags", "wrote"),
    [
        ((), False),
        (("--permission-mode", "acceptEdits"), True),
        (("--permission-mode", "dontAsk"), False),
        (("--permissionMode", "bypassPermissions"), True),
        (("--dangerously-skip-permissions",), True),
        (("--allowedTools", "Write"), True),
        (("--allowed-tools", "Write(new.txt)"), True),
        (("--allowedTools", "Write(other.txt)"), False),
        (("--dangerously-skip-permissions", "--disallowedTools", "Write"), False),
    ],
)
@pytest.mark.promise("G1", "G2")
def test_modes_and_rules_of_flags_decide(tmp_path, repo, flags, wrote):
    with LoopbackModel.in_thread([WRITE, "Done."]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "hi", *flags)
    assert done.returncode == 0, done.stderr
    assert (repo / "new.txt").exists() == wrote


@pytest.mark.promise("F44")
def test_a_question_to_the_user_is_answered_with_decide_and_state_it(tmp_path, repo):
    ask = Answer(
        tools=[("AskUserQuestion", {"questions": [{"question": "Tabs or spaces?", "options": ["tabs", "spaces"]}]})]
    )
    with LoopbackModel.in_thread([ask, "Spaces; I assumed it."]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "hi", "--output-format", "json")
    assert "AskUserQuestion" not in {tool["name"] for tool in server.bodies[0]["tools"]}, "nobody can answer"
    [told] = told_results(server.bodies[1])
    assert "no user is present to ask; decide yourself" in told["text"]
    assert "state in your answer what you assumed" in told["text"]
    assert not told.get("is_error", False)
    result = json.loads(done.stdout)
    assert (result["subtype"], result["permission_denials"]) == ("success", []), "a question is not a refusal"


@pytest.mark.slow
@pytest.mark.promise("K14")
def test_strict_makes_refusals_and_open_tasks_a_failure(tmp_path, repo):
    task = Answer(tools=[("TaskCreate", {"subject": "left over", "description": "nobody does it"})])
    for turns, word in (([WRITE, "Done."], "denied requests: 1"), ([task, "Done."], "open tasks: #1")):
        with LoopbackModel.in_thread(turns) as server:
            program = Program(repo, tmp_path / word[:4], server.url)
            lax = program.run("-p", "hi")
            with LoopbackModel.in_thread(turns) as second:
                strict = Program(repo, tmp_path / word[:5], second.url).run("-p", "hi", "--strict")
        assert lax.returncode == 0
        assert (strict.returncode, error_of(strict)[0]) == (5, "strict")
        assert word in strict.stderr
        assert strict.stdout == "Done.\n"


# ── teams off ────────────────────────────────────────────────────────────────────────────────────────────────────

TEAM_TOOLS = {"TeamCreate", "TeamDelete", "SendMessage", "ListAgents"}


@pytest.mark.promise("A7")
@pytest.mark.parametrize("how", ["variable", "setting"])
@pytest.mark.slow_after(1)
def test_with_teams_off_no_team_tool_is_offered_and_no_team_is_written(tmp_path, repo, how):
    turns = [
        Answer(tools=[("ListAgents", {}), ("TeamCreate", {"team_name": "t"})]),
        Answer(tools=[("Agent", {"description": "x", "prompt": "find it", "subagent_type": "Explore", "name": "ada"})]),
        "found it",
        "Done.",
    ]
    with LoopbackModel.in_thread(turns) as server:
        program = Program(repo, tmp_path / "home", server.url)
        if how == "variable":
            program.env = {"TEAMWRIGHT_TEAMS": "0"}
        else:
            program.settings(teams=False)
        done = program.run("-p", "hi")
    assert (done.returncode, done.stdout) == (0, "Done.\n"), done.stderr
    tools = {tool["name"]: tool for tool in server.bodies[0]["tools"]}
    assert TEAM_TOOLS & set(tools) == {"SendMessage"}, "which reaches sub-agents alone"
    assert set(tools["SendMessage"]["input_schema"]["properties"]) == {"to", "message", "summary"}
    assert "teammate" not in tools["Agent"]["description"] + json.dumps(server.bodies[0]["system"])
    assert all(result["is_error"] for result in told_results(server.bodies[1]))
    assert "found it" in told_results(server.bodies[-1])[-1]["text"], "sub-agents are no team, with a name too"
    assert not (program.home / "teams").exists()
    assert not (program.home / "tasks").exists()


@pytest.mark.promise("A7")
@pytest.mark.slow
def test_the_variable_stands_above_the_setting_and_a_wrong_value_is_an_error(served):
    served.settings(teams=False)
    served.env = {"TEAMWRIGHT_TEAMS": "1"}
    assert served.run("-p", "hi").returncode == 0
    tools = {tool["name"]: tool["description"] for tool in served.server.bodies[0]["tools"]}
    assert "teammate" in tools["Agent"] and "SendMessage" in tools
    served.env = {"TEAMWRIGHT_TEAMS": "maybe"}
    done = served.run("-p", "hi")
    assert (done.returncode, error_of(done)[0]) == (3, "bad-settings")
    assert "TEAMWRIGHT_TEAMS" in done.stderr


# ── what a prompt costs before a word is said ────────────────────────────────────────────────────────────────────


@pytest.mark.promise("P6", "F61")
@pytest.mark.slow
def test_the_fixed_part_of_a_request_is_small(tmp_path, repo, capsys):
    def players(body: dict) -> Answer:
        if teammate_of(body) == "ada":
            return Answer("I am here.")
        spawn = ("Agent", {"description": "x", "prompt": "say hello", "name": "ada"})
        return Answer("Done.") if told_results(body) else Answer(tools=[spawn])

    with LoopbackModel.in_thread(players) as server:
        Program(repo, tmp_path / "home", server.url).run("-p", "hi")
    sizes = {}
    for body in server.bodies:
        who = "teammate" if teammate_of(body) == "ada" else "lead"
        fixed = {key: body[key] for key in ("system", "tools")}
        sizes[who] = len(json.dumps(fixed, ensure_ascii=False).encode()) // 4
    with capsys.disabled():
        print(f"\nsystem prompt and tools: lead {sizes['lead']:,} tokens, teammate {sizes['teammate']:,} tokens")
    assert set(sizes) == {"lead", "teammate"}
    assert sizes["lead"] <= 4_000 and sizes["teammate"] <= 3_800


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.slow_after(1)
@pytest.mark.promise("F66")
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_nobody_else_can_read_what_is_kept_whatever_the_umask(tmp_path, repo, umask):
    spawn = ("Agent", {"description": "x", "prompt": "say hello", "name": "ada"})
    job = ("Bash", {"command": "seq 20000", "run_in_background": True})
    calls = [
        ("TeamCreate", {"team_name": "t"}),
        ("TaskCreate", {"subject": "s", "description": "d"}),
        ("Bash", {"command": "seq 20000"}),
        job,
        ("Edit", {"file_path": "main.py", "old_string": "hello", "new_string": "bye"}),
        ("SendMessage", {"to": "ada", "message": "more"}),
    ]

    def players(body: dict) -> Answer:
        if teammate_of(body) == "ada":
            return Answer("I am here.")
        return Answer("Done.") if len(told_results(body)) > 3 else Answer(tools=[calls[0], spawn, *calls[1:]])

    with LoopbackModel.in_thread(players) as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run(
            "-p", "hi", "--dangerously-skip-permissions", "--report", str(tmp_path / "report.md"), umask=umask
        )
    assert done.returncode == 0, done.stderr
    seen = 0
    made_by_commands = list(program.home.glob("projects/*/*/tmp/*"))
    for path in [program.home, *program.home.rglob("*")]:
        if any(path.is_relative_to(one) for one in made_by_commands):
            continue  # the sandbox and commands choose their modes; the directory above is private
        mode = path.lstat().st_mode
        wanted = 0o700 if path.is_dir() or path.is_socket() else 0o600
        if not path.is_symlink():
            assert mode & 0o777 == wanted, f"{path} has {oct(mode & 0o777)}"
            seen += 1
    assert seen > 20
    assert list(program.home.rglob("*.output")), "there was something to look at"
