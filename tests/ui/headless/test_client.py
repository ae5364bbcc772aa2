"""A client program on stdin and stdout: hooks, permission answers, MCP servers in it, interrupts, partial messages."""

import io
import json
import subprocess
from contextlib import contextmanager

import pytest

from teamwright.protocol.events import AssistantText, RunEnded, ThinkingDelta
from teamwright.protocol.ids import LEAD
from teamwright.protocol.usage import NO_USAGE
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from teamwright.ui.headless.partial_messages import PartialMessages
from teamwright.ui.headless.run_output import RunOutput
from tests.support.waits import WAIT_S
from tests.ui.program import Program, error_of, told_results

pytestmark = pytest.mark.finding("C8")

FLAGS = ("-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")


class Client:
    """A client of one process. `answers` are functions by the subtype of a control request."""

    def __init__(self, process, answers):
        self.process = process
        self.answers = answers
        self.asked = []

    def send(self, **body):
        self.process.stdin.write(json.dumps(body) + "\n")
        self.process.stdin.flush()

    def prompt(self, text, **more):
        self.send(type="user", message={"role": "user", "content": text}, **more)

    def request(self, id, **details):
        self.send(type="control_request", request_id=id, request=details)

    def until(self, wanted):
        """Return the lines up to the first that is wanted; control requests are answered on the way."""
        seen = []
        for line in self.process.stdout:
            body = json.loads(line)
            if body["type"] == "control_request":
                self.asked.append(body["request"])
                answer = self.answers[body["request"]["subtype"]](body["request"])
                told = {"subtype": "success", "request_id": body["request_id"], "response": answer}
                self.send(type="control_response", response=told)
            seen.append(body)
            if wanted(body):
                return seen
        raise AssertionError(f"the program ended: {self.process.communicate(timeout=WAIT_S)[1]}")

    def result(self):
        return self.until(lambda body: body["type"] == "result")

    def answer_to(self, id):
        return self.until(lambda body: (body.get("response") or {}).get("request_id") == id)[-1]["response"]


@contextmanager
def client(tmp_path, repo, script, *flags, **answers):
    with LoopbackModel.in_thread(script) as server:
        process = Program(repo, tmp_path / "home", server.url).start(*FLAGS, *flags, stdin=subprocess.PIPE)
        one = Client(process, answers)
        one.server = server
        try:
            yield one
        finally:
            if process.returncode is None:
                process.communicate(timeout=WAIT_S)


@pytest.mark.slow
def test_hooks_of_a_client_are_called_and_refuse(tmp_path, repo):
    def hook(request):
        refuses = request["input"]["tool_input"]["file_path"].endswith("main.py")
        said = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "not that"}
        return {"hookSpecificOutput": said} if refuses else {}

    reads = [("Read", {"file_path": "main.py"}), ("Read", {"file_path": "README.md"})]
    with client(tmp_path, repo, [Answer("Reading.", tools=reads), "Done."], hook_callback=hook) as one:
        hooks = {"PreToolUse": [{"matcher": "Read", "hookCallbackIds": ["hook_0"]}]}
        one.request("i", subtype="initialize", hooks=hooks)
        assert one.answer_to("i")["subtype"] == "success"
        one.prompt("read")
        assert one.result()[-1]["result"] == "Done."
    assert [(call["callback_id"], call["input"]["tool_name"]) for call in one.asked] == [("hook_0", "Read")] * 2
    refused, read = told_results(one.server.bodies[-1])
    assert "not that" in refused["text"]
    assert "A small project" in read["text"]
    assert {call["tool_use_id"] for call in one.asked} == {refused["tool_use_id"], read["tool_use_id"]}


def test_a_hook_for_an_unknown_event_ends_the_start_with_its_name(tmp_path, repo):
    with client(tmp_path, repo, []) as one:
        one.request("i", subtype="initialize", hooks={"PreToolUser": [{"hookCallbackIds": ["h"]}]})
        assert "PreToolUser" in one.answer_to("i")["error"]
        _, err = one.process.communicate(timeout=WAIT_S)
    assert one.process.returncode == 2
    assert "PreToolUse" in err


def test_a_client_answers_permission_requests(tmp_path, repo):
    writes = [("Write", {"file_path": name, "content": "a\n"}) for name in ("kept.txt", "changed.txt", "refused.txt")]

    def answer(request):
        given = request["input"]
        if "refused" in given["file_path"]:
            return {"behavior": "deny", "message": "leave it"}
        return {"behavior": "allow", "updatedInput": given | ({"content": "b\n"} if "changed" in str(given) else {})}

    turns = [Answer("Writing.", tools=writes), "Done."]
    with client(tmp_path, repo, turns, "--permission-prompt-tool", "stdio", can_use_tool=answer) as one:
        one.prompt("write")
        one.result()
    assert (repo / "kept.txt").read_text() == "a\n"
    assert (repo / "changed.txt").read_text() == "b\n"
    assert not (repo / "refused.txt").exists()
    told = told_results(one.server.bodies[-1])
    assert [request["tool_use_id"] for request in one.asked] == [result["tool_use_id"] for result in told]
    assert "leave it" in told[2]["text"]
    assert all(request["tool_name"] == "Write" for request in one.asked)


def test_a_client_answers_a_question_of_the_agent(tmp_path, repo):
    question = {"question": "Which one?", "options": [{"label": "A"}, {"label": "B"}]}
    turns = [Answer("", tools=[("AskUserQuestion", {"questions": [question]})]), "Done."]

    def answer(request):
        return {"behavior": "allow", "updatedInput": {**request["input"], "answers": {"Which one?": "B"}}}

    with client(tmp_path, repo, turns, "--permission-prompt-tool", "stdio", can_use_tool=answer) as one:
        one.prompt("ask")
        one.result()
    assert "→ B" in told_results(one.server.bodies[-1])[0]["text"]


def test_a_client_that_is_gone_allows_nothing(tmp_path, repo):
    turns = [Answer("Writing.", tools=[("Write", {"file_path": "a.txt", "content": "a"})]), "Done."]
    line = json.dumps({"type": "user", "message": {"role": "user", "content": "write"}}) + "\n"
    with LoopbackModel.in_thread(turns) as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run(*FLAGS, "--permission-prompt-tool", "stdio", stdin=line)
    assert done.returncode == 0, done.stderr
    assert not (repo / "a.txt").exists()
    assert "closed its input" in told_results(server.bodies[-1])[0]["text"]


def test_an_mcp_server_inside_the_client_is_called(tmp_path, repo):
    tool = {"name": "add", "description": "Add.", "inputSchema": {"type": "object", "properties": {"a": {}, "b": {}}}}

    def served(request):
        message = request["message"]
        given = message.get("params") or {}
        results = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}},
            "tools/list": {"tools": [tool]},
            "tools/call": {"content": [{"type": "text", "text": f"sum {sum(given.get('arguments', {}).values())}"}]},
        }
        return {
            "mcp_response": {"jsonrpc": "2.0", "id": message.get("id"), "result": results.get(message["method"], {})}
        }

    config = json.dumps({"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}})
    turns = [Answer("", tools=[("mcp__calc__add", {"a": 1, "b": 2})]), "Done."]
    flags = ("--mcp-config", config, "--allowed-tools", "mcp__calc__add")
    with client(tmp_path, repo, turns, *flags, mcp_message=served) as one:
        one.request("i", subtype="initialize", hooks=None)
        one.prompt("add")
        lines = one.result()
        one.request("s", subtype="mcp_status")
        assert one.answer_to("s")["response"] == {"mcpServers": [{"name": "calc", "status": "connected"}]}
    assert told_results(one.server.bodies[-1])[0]["text"] == "sum 3"
    init = next(line for line in lines if line.get("subtype") == "init")
    assert init["mcp_servers"] == [{"name": "calc", "status": "connected"}]


@pytest.mark.finding("3I11")
def test_a_server_of_a_client_that_has_nothing_of_a_declared_part_causes_no_line(tmp_path, repo):
    def served(request):
        message = request["message"]
        if message["method"] == "initialize":
            capabilities = {"tools": {}, "prompts": {}}
            answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": {}}}
        else:
            answer = {"error": {"code": -32601, "message": "Method not found"}}
        return {"mcp_response": {"jsonrpc": "2.0", "id": message.get("id"), **answer}}

    config = json.dumps({"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}})
    with client(tmp_path, repo, ["Done."], "--mcp-config", config, mcp_message=served) as one:
        one.request("i", subtype="initialize", hooks=None)
        one.prompt("hi")
        lines = one.result()
        one.request("s", subtype="mcp_status")
        assert one.answer_to("s")["response"] == {"mcpServers": [{"name": "calc", "status": "connected"}]}
        assert one.process.communicate(timeout=WAIT_S)[1] == ""
    assert "Method not found" not in json.dumps(lines)


def test_an_mcp_server_of_a_client_needs_a_client(tmp_path, repo):
    config = json.dumps({"mcpServers": {"calc": {"type": "sdk", "name": "calc"}}})
    with LoopbackModel.in_thread(["Done."]) as server:
        flags = ("--output-format", "stream-json", "--mcp-config", config)
        done = Program(repo, tmp_path / "home", server.url).run("-p", "hi", *flags)
    init, *_, result = map(json.loads, done.stdout.splitlines())
    assert (done.returncode, result["result"]) == (0, "Done.")
    assert init["mcp_servers"] == [{"name": "calc", "status": "failed"}]


def test_an_interrupt_ends_the_turn_and_the_next_prompt_is_answered(tmp_path, repo):
    def script(body):
        asked = "sleep" not in json.dumps(body["messages"])
        return Answer("Waiting.", tools=[("Bash", {"command": "sleep 600"})]) if asked else "Done."

    with client(tmp_path, repo, script, "--dangerously-skip-permissions") as one:
        one.prompt("wait")
        one.until(lambda body: body["type"] == "assistant")
        one.request("r", subtype="interrupt")
        assert one.answer_to("r")["subtype"] == "success"
        ended = one.result()[-1]
        assert (ended["subtype"], ended["is_error"]) == ("error_during_execution", True)
        one.prompt("again")
        assert one.result()[-1]["result"] == "Done."
    assert one.process.returncode == 0


def test_a_client_changes_mode_and_model(tmp_path, repo):
    with client(tmp_path, repo, ["One.", "Two."]) as one:
        one.prompt("one")
        one.result()
        one.request("m", subtype="set_permission_mode", mode="acceptEdits")
        assert one.answer_to("m")["response"] == {"mode": "acceptEdits"}
        one.request("n", subtype="set_model", model="haiku")
        assert "haiku" in one.answer_to("n")["response"]["model"]
        one.request("x", subtype="rewind_files", user_message_id="u")
        assert "'rewind_files' is not supported" in one.answer_to("x")["error"]
        one.request("y", subtype="set_permission_mode", mode="sudo")
        assert "sudo" in one.answer_to("y")["error"]
        one.prompt("two")
        one.result()
    assert "haiku" in one.server.bodies[-1]["model"]


@pytest.mark.finding("3I1")
@pytest.mark.parametrize("without", [{}, {"model": None}], ids=["no field", "null"])
def test_a_client_that_names_no_model_returns_to_the_model_of_the_start(tmp_path, repo, without):
    """The TypeScript SDK leaves the field out: `setModel(undefined)`."""
    with client(tmp_path, repo, ["One.", "Two."]) as one:
        one.prompt("one")
        one.result()
        one.request("m", subtype="set_model", model="haiku")
        assert "haiku" in one.answer_to("m")["response"]["model"]
        one.request("n", subtype="set_model", **without)
        assert "haiku" not in one.answer_to("n")["response"]["model"]
        one.prompt("two")
        one.result()
    assert one.server.bodies[-1]["model"] == one.server.bodies[0]["model"]


@pytest.mark.finding("U10")
def test_partial_messages_are_the_text_before_its_message(tmp_path, repo):
    turns = [Answer("Reading it.", tools=[("Read", {"file_path": "main.py"})]), "All done."]
    with client(tmp_path, repo, turns, "--include-partial-messages") as one:
        one.prompt("read")
        lines = one.result()
    kinds = [line["event"]["type"] if line["type"] == "stream_event" else line["type"] for line in lines]
    assert kinds.index("message_start") < kinds.index("message_stop") < kinds.index("assistant")
    events = [line["event"] for line in lines if line["type"] == "stream_event"]
    deltas = [event["delta"] for event in events if event["type"] == "content_block_delta"]
    assert "".join(one.get("text", "") for one in deltas) == "Reading it.All done."
    [given] = [one["partial_json"] for one in deltas if one["type"] == "input_json_delta"]
    assert json.loads(given) == {"file_path": "main.py"}
    assert kinds.count("message_start") == kinds.count("message_stop") == 2
    assert kinds.count("content_block_start") == kinds.count("content_block_stop") == 3


@pytest.mark.finding("3I10")
def test_partial_messages_have_the_thinking_before_the_text(tmp_path, repo):
    turns = [Answer("Four.", thinking="Two and two make four, counted step by step.")]
    with client(tmp_path, repo, turns, "--include-partial-messages") as one:
        one.prompt("count")
        lines = one.result()
    events = [line["event"] for line in lines if line["type"] == "stream_event"]
    starts = [(one["index"], one["content_block"]["type"]) for one in events if one["type"] == "content_block_start"]
    deltas = [one for one in events if one["type"] == "content_block_delta"]
    thoughts = "".join(one["delta"]["thinking"] for one in deltas if one["delta"]["type"] == "thinking_delta")
    assert starts == [(0, "thinking"), (1, "text")]
    assert thoughts == turns[0].thinking
    assert [one["index"] for one in deltas] == sorted(one["index"] for one in deltas)
    stops = [place for place, one in enumerate(events) if one["type"] == "content_block_stop"]
    assert len(stops) == 2 and events[stops[0] + 1]["type"] == "content_block_start"


def test_an_answer_that_was_interrupted_in_its_thinking_leaves_nothing_to_the_next_one():
    partials = PartialMessages()
    stopped = RunEnded(member=LEAD, stop="cancelled", text="", usage=NO_USAGE)
    for event in (ThinkingDelta(member=LEAD, text="Hm."), stopped):
        partials.lines(event, "s")
    kinds = [line["event"]["type"] for line in partials.lines(ThinkingDelta(member=LEAD, text="So."), "s")]
    assert kinds == ["message_start", "content_block_start", "content_block_delta"]


@pytest.mark.finding("U10")
def test_prompts_are_replayed_with_their_ids(tmp_path, repo):
    with client(tmp_path, repo, ["One.", "Two."], "--replay-user-messages") as one:
        for number, text in enumerate(("first", "second")):
            one.prompt(text, uuid=f"00000000-0000-4000-8000-00000000000{number}")
            users = [line for line in one.result() if line["type"] == "user"]
            assert [(line["isReplay"], line["uuid"][-1]) for line in users] == [(True, str(number))]
            assert users[0]["message"]["content"][0]["text"] == text


@pytest.mark.parametrize(("output", "results"), [("stream-json", 4), ("json", 1)])
def test_prompts_that_were_read_when_a_cap_was_reached_are_answered_as_not_run(tmp_path, repo, output, results):
    ids = [f"00000000-0000-4000-8000-00000000000{number}" for number in range(4)]
    prompts = [{"type": "user", "message": {"role": "user", "content": "go"}, "uuid": id} for id in ids]
    flags = ("-p", "--input-format", "stream-json", "--output-format", output, "--verbose", "--max-tokens", "100000")
    with LoopbackModel.in_thread([Answer("One.", usage={"input_tokens": 150_000}), "Two."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run(*flags, stdin="".join(json.dumps(one) + "\n" for one in prompts))
    assert done.returncode == 4, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    answers = [line for line in lines if line["type"] == "result"]
    assert [line["user_message_uuid"] for line in answers] == (ids if results == 4 else ids[1:2])
    assert [line["subtype"] for line in answers][-results:][1:] == ["error_during_execution"] * (results - 1)
    for line in answers[2:]:
        assert line["is_error"] and line["result"].startswith("this prompt was not run: ")
        assert line["errors"] == [line["result"]] and "100,000" in line["result"] and line["team"]["limit"] == "tokens"
    assert ("2 prompts not run: " in done.stderr) == (output == "json")


@pytest.mark.finding("U10")
def test_only_prompts_that_reach_the_model_are_replayed_and_each_with_its_own_id(tmp_path, repo):
    with client(tmp_path, repo, ["One."], "--replay-user-messages") as one:
        one.prompt("/cost", uuid="00000000-0000-4000-8000-000000000000")
        assert not [line for line in one.result() if line["type"] == "user"]
        one.prompt("first", uuid="00000000-0000-4000-8000-000000000001")
        users = [line for line in one.result() if line["type"] == "user"]
        assert [(line["isReplay"], line["uuid"][-1]) for line in users] == [(True, "1")]


@pytest.mark.finding("U10")
def test_mail_of_the_lead_is_no_replay():
    out = io.StringIO()
    outlet = RunOutput("stream-json", progress=False, out=out, err=io.StringIO(), replays_prompts=True)
    for id, text in ((None, "mail"), ("prompt-1", "a prompt"), (None, "mail that came during its turn")):
        if id is not None:
            outlet.begin_prompt(id, None)
        content = [{"type": "text", "text": text}]
        outlet.show_event(AssistantText(member=LEAD, agent_id="a", message={"role": "user", "content": content}), "s")
    [line] = map(json.loads, out.getvalue().splitlines())
    assert (line["uuid"], line["isReplay"], line["message"]["content"][0]["text"]) == ("prompt-1", True, "a prompt")


APPROVER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    given = message.get("params") or {}
    asked = given.get("arguments") or {}
    refuse = "refused" in json.dumps(asked)
    said = {"behavior": "allow", "updatedInput": asked.get("input")}
    if refuse:
        said = {"behavior": "deny", "message": "not now"}
    results = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}},
        "tools/list": {"tools": [{"name": "approve", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": json.dumps(said)}]},
    }
    if "id" in message:
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": results.get(message["method"], {})}
        print(json.dumps(answer), flush=True)
"""


@pytest.mark.finding("U10")
@pytest.mark.slow
def test_a_tool_of_an_mcp_server_answers_permission_requests(tmp_path, repo):
    (tmp_path / "approver.py").write_text(APPROVER)
    config = json.dumps({"mcpServers": {"gate": {"command": "python3", "args": [str(tmp_path / "approver.py")]}}})
    writes = [("Write", {"file_path": name, "content": "a\n"}) for name in ("kept.txt", "refused.txt")]
    with LoopbackModel.in_thread([Answer("Writing.", tools=writes), "Done."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        flags = ("--mcp-config", config, "--permission-prompt-tool", "mcp__gate__approve")
        done = program.run("-p", "write", *flags)
    assert done.returncode == 0, done.stderr
    assert (repo / "kept.txt").read_text() == "a\n"
    assert not (repo / "refused.txt").exists()
    assert "not now" in told_results(server.bodies[-1])[1]["text"]


@pytest.mark.finding("U10")
@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("--permission-prompt-tool", "mcp__gate__nope"), "no MCP server of this run has it"),
        (("--permission-prompt-tool", "approve"), "no tool of an MCP server"),
        (("--permission-prompt-tool", "stdio"), "needs --input-format stream-json"),
        (("--include-partial-messages",), "needs --output-format stream-json"),
        (("--replay-user-messages",), "needs --input-format stream-json and --output-format stream-json"),
    ],
)
@pytest.mark.slow_after(1)
def test_flags_of_clients_that_cannot_work_are_refused(tmp_path, repo, args, word):
    with LoopbackModel.in_thread([]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "hi", *args)
    assert done.returncode == 2
    assert word in "\n".join(error_of(done)[1])
