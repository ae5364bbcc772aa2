"""What a client sets with its first request, what its hooks decide, and its slash commands."""

import json

import pytest

from teamwright.models.effort import effort_for_tokens
from teamwright.models.model import ModelCard
from teamwright.protocol.errors import UsageError
from teamwright.session.options import Options
from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer, Status
from teamwright.ui.headless.client_start import with_client_fields
from tests.support.waits import WAIT_S
from tests.ui.headless.test_client import client
from tests.ui.program import Program, error_of, told_results


def card(**facts):
    return ModelCard(name="a/b", provider="a", wire="b", **facts)


def system_text(body):
    return "\n".join(block["text"] for block in body["system"])


@pytest.mark.finding("3I1")
def test_the_first_request_sets_instructions_tools_and_the_form_of_the_answer(tmp_path, repo):
    tool = {"name": "add", "description": "Add.", "inputSchema": {"type": "object", "properties": {"a": {}, "b": {}}}}

    def served(request):
        results = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}},
            "tools/list": {"tools": [tool]},
            "tools/call": {"content": [{"type": "text", "text": "three"}]},
        }
        message = request["message"]
        result = results.get(message["method"], {})
        return {"mcp_response": {"jsonrpc": "2.0", "id": message.get("id"), "result": result}}

    schema = {"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}
    turns = [Answer("", tools=[("mcp__calc__add", {"a": 1, "b": 2})]), '{"sum": 3}']
    flags = ("--permission-mode", "bypassPermissions", "--allow-dangerously-skip-permissions")
    with client(tmp_path, repo, turns, *flags, mcp_message=served) as one:
        one.request(
            "i",
            subtype="initialize",
            systemPrompt=["You count.", "In whole numbers."],
            appendSystemPrompt="Be brief.",
            sdkMcpServers=["calc"],
            sdkMcpServerManifests={"calc": {}},
            jsonSchema=schema,
            title="Sums",
            supportedDialogKinds=[],
        )
        one.prompt("add")
        lines = one.result()
    result = lines[-1]
    assert result["structured_output"] == {"sum": 3}
    first = one.server.bodies[0]
    assert system_text(first).startswith("You count.\n\nIn whole numbers.")
    assert "Be brief." in system_text(first)
    assert told_results(one.server.bodies[1])[0]["text"] == "three"


@pytest.mark.finding("3I1")
@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"toolAliases": {"Shell": "Bash"}}, "toolAliases"),
        ({"safetyLevel": "high"}, "safetyLevel"),
        ({"systemPrompt": {"preset": "x"}}, "systemPrompt"),
        ({"sdkMcpServers": "calc"}, "sdkMcpServers"),
        ({"jsonSchema": {"type": "nothing"}}, "jsonSchema"),
        ({"sdkMcpServerConfigs": {"db": {"tools": [{"name": "x", "permission_policy": "deny"}]}}}, "permission_policy"),
    ],
)
@pytest.mark.slow_after(2)
def test_a_field_that_would_be_dropped_is_an_error(tmp_path, repo, fields, word):
    with client(tmp_path, repo, []) as one:
        one.request("i", subtype="initialize", **fields)
        assert word in one.answer_to("i")["error"]
        _, err = one.process.communicate(timeout=WAIT_S)
    assert one.process.returncode == 2
    assert word in err


@pytest.mark.finding("3I1")
@pytest.mark.parametrize(
    ("configs", "words"),
    [
        (["db"], "is an object"),
        ({"db": ["x"]}, "the entry of db is an object"),
        ({"db": {"tools": {"x": "always_deny"}}}, "the tools of db are a list of objects with a name"),
        ({"db": {"tools": ["x"]}}, "the tools of db are a list of objects with a name"),
        (
            {"db": {"tools": [{"permission_policy": "always_deny"}]}},
            "the tools of db are a list of objects with a name",
        ),
        ({"db": {"tools": [{"name": "x", "permission_policy": "Always_Deny"}]}}, "not 'Always_Deny'"),
        ({"db": {"tools": [{"name": "x", "permission_policy": ["always_deny"]}]}}, "a permission_policy is one of"),
        ({"db": {"timeout": "5s"}}, "the timeout of db is a number of milliseconds"),
        ({"db": {"timeout": True}}, "the timeout of db is a number of milliseconds"),
    ],
)
def test_what_a_client_says_about_its_servers_in_a_wrong_form_is_an_error_that_names_the_field(configs, words):
    with pytest.raises(UsageError, match="sdkMcpServerConfigs") as caught:
        with_client_fields(Options(), {"sdkMcpServers": ["db"], "sdkMcpServerConfigs": configs})
    assert words in caught.value.what


@pytest.mark.finding("3I1")
def test_a_policy_of_a_client_holds_for_the_name_that_its_tool_has_here():
    tools = [
        {"name": "drop all, now", "permission_policy": "always_deny"},
        {"name": "move.all", "permission_policy": "always_ask"},
        {"name": "read", "permission_policy": "always_allow"},
    ]
    request = {"sdkMcpServers": ["my db"], "sdkMcpServerConfigs": {"my db": {"tools": tools}, "other": None}}
    options = with_client_fields(Options(), request)
    assert options.disallowed_tools == ("mcp__my_db__drop_all__now",)
    assert options.asked_tools == ("mcp__my_db__move_all",)


@pytest.mark.finding("3I1")
def test_a_tool_policy_of_the_client_denies_and_asks(tmp_path, repo):
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("drop", "move")]

    def served(request):
        results = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}},
            "tools/list": {"tools": tools},
            "tools/call": {"content": [{"type": "text", "text": "ran"}]},
        }
        message = request["message"]
        return {
            "mcp_response": {"jsonrpc": "2.0", "id": message.get("id"), "result": results.get(message["method"], {})}
        }

    policies = [
        {"name": "drop", "permission_policy": "always_deny"},
        {"name": "move", "permission_policy": "always_ask"},
    ]
    turns = [Answer("", tools=[("mcp__db__move", {})]), "Done."]
    flags = ("--allowed-tools", "mcp__db__*", "--permission-prompt-tool", "stdio")
    refusal = {"behavior": "deny", "message": "leave it"}
    with client(tmp_path, repo, turns, *flags, mcp_message=served, can_use_tool=lambda _: refusal) as one:
        config = {"db": {"timeout": 5_000, "tools": policies}}
        one.request("i", subtype="initialize", sdkMcpServers=["db"], sdkMcpServerConfigs=config)
        one.prompt("go")
        one.result()
    assert "mcp__db__drop" not in [tool["name"] for tool in one.server.bodies[0]["tools"]]
    assert "leave it" in told_results(one.server.bodies[1])[0]["text"]


@pytest.mark.finding("3I2")
def test_the_answer_to_the_first_request_names_a_model_and_the_commands(tmp_path, repo):
    with client(tmp_path, repo, []) as one:
        one.request("i", subtype="initialize", hooks={}, mcpServers={"x": {"command": "x"}})
        one.process.stdin.close()
        answer = one.answer_to("i")["response"]
        one.process.stdin = None
    default, *others = answer["models"]
    assert (default["value"], bool(default["displayName"])) == ("default", True)
    assert {"sonnet", "opus", "haiku"} <= {one["value"] for one in others}
    assert {"compact", "clear", "cost", "context"} <= {command["name"] for command in answer["commands"]}
    assert answer["mcp_servers_applied"] is False
    assert "Explore" in [agent["name"] for agent in answer["agents"]]


@pytest.mark.finding("3I2")
def test_the_permission_to_skip_questions_later_grants_nothing_alone(tmp_path, repo):
    writes = Answer("", tools=[("Write", {"file_path": "a.txt", "content": "a\n"})])
    with client(
        tmp_path, repo, [writes, "Refused.", writes, "Written."], "--allow-dangerously-skip-permissions"
    ) as one:
        one.prompt("write")
        one.result()
        assert not (repo / "a.txt").exists()
        one.request("m", subtype="set_permission_mode", mode="bypassPermissions")
        assert one.answer_to("m")["response"] == {"mode": "bypassPermissions"}
        one.prompt("write")
        one.result()
    assert (repo / "a.txt").exists()


@pytest.mark.finding("3I3")
def test_the_cap_on_model_calls_starts_again_with_each_prompt(tmp_path, repo):
    reads = Answer("", tools=[("Read", {"file_path": "main.py"})])
    turns = [reads, "One.", reads, reads, reads, "Three."]
    with client(tmp_path, repo, turns, "--max-turns", "2") as one:
        results = []
        for text in ("one", "two", "three"):
            one.prompt(text)
            results.append(one.result()[-1])
    assert [result["subtype"] for result in results] == ["success", "error_max_turns", "success"]
    assert [result["result"] for result in results][::2] == ["One.", "Three."]


@pytest.mark.finding("3I5")
@pytest.mark.parametrize(("mode", "notices"), [("auto", 1), ("manual", 0)])
def test_modes_of_the_other_product_ask_as_default_does(tmp_path, repo, mode, notices):
    with LoopbackModel.in_thread(["Done."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run("-p", "hi", "--permission-mode", mode, "--output-format", "stream-json")
    init = json.loads(done.stdout.splitlines()[0])
    assert (done.returncode, init["permissionMode"]) == (0, "default"), done.stderr
    assert done.stderr.count("a person decides, and no model") == notices


@pytest.mark.finding("3I5")
def test_an_agent_file_with_a_mode_of_the_other_product_is_used(tmp_path, repo):
    with LoopbackModel.in_thread(["Done."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        agents = json.dumps({"helper": {"description": "helps", "prompt": "Help.", "permissionMode": "auto"}})
        done = program.run("-p", "hi", "--agents", agents, "--output-format", "stream-json")
    assert "helper" in json.loads(done.stdout.splitlines()[0])["agents"], done.stderr


@pytest.mark.finding("3I6")
def test_commands_of_a_client_act_without_a_model(tmp_path, repo):
    with client(tmp_path, repo, ["One.", "a summary of it", "Two."]) as one:
        one.prompt("one")
        init = next(line for line in one.result() if line.get("subtype") == "init")
        assert {"compact", "clear", "cost", "context"} <= set(init["slash_commands"])
        answers = {}
        for command in ("/cost", "/context", "/context nobody", "/vim", "/clear"):
            one.prompt(command)
            answers[command] = one.result()[-1]["result"]
        calls = len(one.server.bodies)
        one.prompt("/opt is a path")
        one.result()
    assert calls == 1
    assert "all" in answers["/cost"]
    assert "tokens" in answers["/context"]
    assert "nobody" in answers["/context nobody"]
    assert "not available" in answers["/vim"]
    assert "is empty now" in answers["/clear"]


@pytest.mark.finding("3I6")
def test_compaction_on_request_of_a_client_says_what_it_did(tmp_path, repo):
    with client(tmp_path, repo, ["One.", "The summary."]) as one:
        one.prompt("one " * 200)
        one.result()
        one.prompt("/compact")
        said = one.result()[-1]["result"]
    assert "compacted: " in said


@pytest.mark.finding("3I7")
def test_thinking_options_become_the_nearest_effort(tmp_path, repo):
    with client(tmp_path, repo, ["One.", "Two."], "--max-thinking-tokens", "3000", "--model", "sonnet") as one:
        one.prompt("one")
        one.result()
        one.request("t", subtype="set_max_thinking_tokens", max_thinking_tokens=30_000)
        assert one.answer_to("t")["subtype"] == "success"
        one.prompt("two")
        one.result()
    first, second = one.server.bodies[0], one.server.bodies[-1]
    efforts = [body.get("output_config", {}).get("effort") or body["thinking"] for body in (first, second)]
    assert efforts[0] != efforts[1], efforts


@pytest.mark.finding("3I7")
@pytest.mark.parametrize(
    ("model", "tokens", "effort"),
    [
        (card(efforts=("low", "medium", "high")), 3_000, "low"),
        (card(efforts=("low", "medium", "high")), 12_000, "medium"),
        (card(efforts=("low", "medium", "high")), 90_000, "high"),
        (card(efforts=("none", "low")), 0, "none"),
        (card(efforts=("low",)), 0, None),
        (card(budget_from=1_024, max_output_tokens=8_000), 500, 1_024),
        (card(budget_from=1_024, max_output_tokens=8_000), 90_000, 7_999),
        (card(), 5_000, None),
    ],
)
def test_a_number_of_tokens_is_mapped_to_what_the_model_documents(model, tokens, effort):
    assert effort_for_tokens(model, tokens) == effort


@pytest.mark.finding("3I7")
def test_thinking_is_switched_off_by_a_flag(tmp_path, repo):
    with LoopbackModel.in_thread(["Done."]) as server:
        program = Program(repo, tmp_path / "home", server.url)
        done = program.run("-p", "hi", "--model", "sonnet", "--thinking", "disabled")
    assert done.returncode == 0, done.stderr
    assert server.bodies[0].get("thinking", {}).get("type") != "adaptive"


@pytest.mark.finding("3I7")
def test_a_lead_that_thinks_as_it_likes_takes_no_number_of_tokens_from_the_environment(tmp_path, repo):
    with LoopbackModel.in_thread(["Done."]) as server:
        program = Program(repo, tmp_path / "home", server.url, env={"MAX_THINKING_TOKENS": "3000"})
        done = program.run("-p", "hi", "--model", "sonnet", "--thinking", "adaptive")
    assert done.returncode == 0, done.stderr
    [body] = server.bodies
    assert (body["thinking"]["type"], body.get("output_config")) == ("adaptive", None)


@pytest.mark.finding("3I8")
@pytest.mark.parametrize("failure", ["late", "error"])
def test_a_hook_of_a_client_without_an_answer_refuses_the_call(tmp_path, repo, failure):
    hooks = {"PreToolUse": [{"matcher": "Write", "hookCallbackIds": ["h"], "timeout": 0.2}]}
    writes = Answer("", tools=[("Write", {"file_path": "a.txt", "content": "a\n"})])
    with client(tmp_path, repo, [writes, "Done."], "--dangerously-skip-permissions") as one:
        one.request("i", subtype="initialize", hooks=hooks)
        one.answer_to("i")
        one.prompt("write")
        for line in one.process.stdout:
            body = json.loads(line)
            if body["type"] == "control_request" and failure == "error":
                told = {"subtype": "error", "request_id": body["request_id"], "error": "boom"}
                one.send(type="control_response", response=told)
            if body["type"] == "result":
                break
    assert not (repo / "a.txt").exists()
    said = told_results(one.server.bodies[-1])[0]["text"]
    assert ("no answer" if failure == "late" else "boom") in said


@pytest.mark.finding("3I10")
def test_a_prompt_comes_back_only_when_it_is_asked_for(tmp_path, repo):
    with client(tmp_path, repo, [Answer("", tools=[("Read", {"file_path": "main.py"})]), "Done."]) as one:
        one.prompt("read")
        users = [line for line in one.result() if line["type"] == "user"]
    [line] = users
    assert [block["type"] for block in line["message"]["content"]] == ["tool_result"]


@pytest.mark.finding("3I7")
def test_a_number_of_thinking_tokens_that_is_none_is_refused(tmp_path, repo):
    with LoopbackModel.in_thread([]) as server:
        done = Program(repo, tmp_path / "home", server.url).run("-p", "hi", "--max-thinking-tokens", "many")
    assert done.returncode == 2
    assert "max-thinking-tokens" in "\n".join(error_of(done)[1]) + error_of(done)[0]


def with_helper(body):
    """The lead starts a sub-agent, which reads a file."""
    text = json.dumps(body["messages"])
    if "help me" in text and "Ask the helper" not in text:
        return (
            "I have read it."
            if "tool_result" in text
            else Answer("I read.", tools=[("Read", {"file_path": "main.py"})])
        )
    if "tool_result" in text:
        return "Done."
    return Answer("", tools=[("Agent", {"description": "d", "prompt": "help me", "subagent_type": "general-purpose"})])


@pytest.mark.finding("3I11")
@pytest.mark.parametrize("asks", [False, True])
def test_texts_of_sub_agents_come_only_when_the_client_asked_for_them(tmp_path, repo, asks):
    with client(tmp_path, repo, with_helper) as one:
        one.request("i", subtype="initialize", forwardSubagentText=asks)
        one.answer_to("i")
        one.prompt("Ask the helper.")
        lines = one.result()
    inner = [line for line in lines if line.get("parent_tool_use_id")]
    kinds = [block["type"] for line in inner for block in line["message"]["content"]]
    assert kinds == (["text", "text", "tool_use", "tool_result", "text"] if asks else ["tool_use", "tool_result"])


@pytest.mark.finding("3I11", "3I9")
def test_a_result_names_the_prompt_that_it_answers_and_why_it_failed(tmp_path, repo):
    (repo / ".claude").mkdir(exist_ok=True)
    (repo / ".claude" / "settings.json").write_text(json.dumps({"permissions": {"allow": ["Bash(make:*)"]}}))
    origin, uuid = {"kind": "peer", "name": "zed"}, "00000000-0000-4000-8000-000000000001"
    with client(tmp_path, repo, ["One.", Status(400, "no such field")], "--replay-user-messages") as one:
        one.prompt("first", uuid=uuid, origin=origin)
        [*lines, done] = one.result()
        assert [line["origin"] for line in lines if line.get("isReplay")] == [origin]
        assert (done["origin"], done["user_message_uuid"], done["user_message_uuids"]) == (origin, uuid, [uuid])
        assert (done["terminal_reason"], done["api_error_status"]) == ("completed", None)
        one.prompt("second")
        failed = one.result()[-1]
        _, stderr = one.process.communicate(timeout=WAIT_S)
    assert "origin" not in failed and "user_message_uuid" not in failed
    assert (failed["terminal_reason"], failed["api_error_status"]) == ("api_error", 400)
    assert failed["result"] == failed["errors"][0] == "anthropic refused the request (HTTP 400): no such field"
    first, second = stderr.splitlines()[:2]  # no line about caps or costs
    assert "not trusted" in first and 'extra_args={"trust": None}' in first and "extraArgs: {trust: null}" in first
    assert "HTTP 400" in second and " USD" not in stderr
