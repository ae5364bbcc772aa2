"""Hooks of the types http, mcp_tool, prompt and agent: what each sends, what its answer does, what a failure does."""

import gzip
import json
import logging
import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from teamwright import Team
from teamwright.config.settings.merge import load_settings
from teamwright.config.settings.settings import SettingFlags
from teamwright.config.trust import trust_state
from teamwright.hooks.hook_actions import HttpLimits, parse_action, question_answer
from teamwright.hooks.hook_definitions import parse_hooks
from teamwright.hooks.hook_index import HookIndex
from teamwright.hooks.hook_runner import HookEnvironment, HookRunner
from teamwright.models.model import Failure
from teamwright.protocol.events import Notice
from teamwright.storage.paths import find_home
from teamwright.testing import Call, ScriptedModel
from tests.mcp.conftest import SERVER
from tests.support.waits import WAIT_S

pytestmark = [pytest.mark.finding("C2"), pytest.mark.promise("G7")]

WRITE = Call("Write", {"file_path": "new.txt", "content": "x"})


class Receiver(ThreadingHTTPServer):
    """An address for hooks: it keeps what it was sent, and gives one answer. `answer` None: it never answers."""

    daemon_threads = True

    def __init__(self, answer: str | None = "", status: int = 200) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer, self.status = answer, status
        self.received: list[tuple[dict[str, str], dict]] = []
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?key=secret-path"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:  # the name is http.server's
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append((dict(self.headers), body))
        if self.server.answer is None:
            self.server.closing.wait(WAIT_S)
            return
        content = self.server.answer.encode()
        self.send_response(self.server.status)
        if self.server.answer.startswith("GZIP"):
            content = gzip.compress(b'{"decision": "block", "reason": "no"}' + b" " * 1_000_000)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Location", self.server.url)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver():
    started: list[Receiver] = []

    def start(answer: str | None = "", status: int = 200) -> Receiver:
        made = Receiver(answer, status)
        threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        started.append(made)
        return made

    yield start
    for one in started:
        one.closing.set()
        one.shutdown()
        one.server_close()


class Crew:
    """A team with these hooks. `model` has its requests, `notices` what a person read."""

    def __init__(self, directory, model, hooks: dict, more: dict | None = None, **options) -> None:
        (directory / "work").mkdir()
        settings = directory / "settings.json"
        groups = {event: [{"hooks": given}] for event, given in hooks.items()}
        settings.write_text(json.dumps({"hooks": groups, "mcp": {"wait_s": WAIT_S}, **(more or {})}))
        self.model = model if isinstance(model, ScriptedModel) else ScriptedModel(model)
        self.cwd, self.notices, self.result = directory / "work", [], None
        kept = {"permission_mode": "bypassPermissions", "settings_file": settings} | options
        self.team = Team("crew", model=self.model, cwd=self.cwd, **kept)

    async def run(self):
        async with self.team as team:
            team.session.log.subscribe(lambda _n, e: self.notices.append(e.text) if isinstance(e, Notice) else None)
            self.result = await team.run("Do it.")
            self.cost = team.session.agent_factory.budget_tracker.books.account("team-lead").usage.requests
        return self

    @property
    def wrote(self) -> bool:
        return (self.cwd / "new.txt").exists()

    def request(self, at: int) -> str:
        return self.model.request_text(at)


@pytest.mark.parametrize(
    ("pattern", "url", "matches"),
    [
        ("https://hooks.example.com/*", "https://hooks.example.com/a?b", True),
        ("https://hooks.example.com/*", "https://hooks.example.com.evil.example/", False),
        ("https://*.example.com/*", "https://a.b.example.com/x", True),
        ("https://*.example.com/*", "https://evil.example/.example.com/", False),
        ("https://*.example.com/*", "https://evil.example?.example.com/", False),
        ("*://localhost:*/*", "http://localhost:8080/x", True),
        ("http://localhost:8080", "http://localhost:8080/x", False),
        ("*", "https://any.example/", True),
    ],
)
def test_a_star_in_the_host_of_an_allowed_address_matches_a_part_of_the_host_alone(pattern, url, matches):
    assert HttpLimits((pattern,)).allows(url) is matches
    assert HttpLimits().allows(url) and not HttpLimits(()).allows(url)


async def test_settings_limit_the_addresses_and_the_variables_of_http_hooks(tmp_path, receiver, monkeypatch):
    monkeypatch.setenv("HOOK_TOKEN", "the-token")
    monkeypatch.setenv("OTHER_TOKEN", "the-other")
    allowed, other = (receiver(json.dumps({"decision": "block", "reason": name})) for name in ("one", "two"))
    headers = {"X-Token": "<$HOOK_TOKEN>", "X-Other": "<$OTHER_TOKEN>"}
    hook = {"type": "http", "headers": headers, "allowedEnvVars": ["HOOK_TOKEN", "OTHER_TOKEN"]}
    both = [hook | {"url": address.url} for address in (allowed, other)]
    more = {"allowedHttpHookUrls": [f"http://127.0.0.1:{allowed.server_port}/*"]}
    more["httpHookAllowedEnvVars"] = ["HOOK_TOKEN"]
    crew = await Crew(tmp_path, [WRITE, "Done."], {"PreToolUse": both}, more).run()
    [(sent, _)] = allowed.received
    assert (sent["X-Token"], sent["X-Other"], other.received) == ("<the-token>", "<>", [])
    assert "one" in crew.request(1) and "two" not in crew.request(1) and not crew.wrote
    assert any("allowedHttpHookUrls" in text for text in crew.notices)


def test_a_repository_adds_to_a_list_of_the_person_and_begins_none(tmp_path):
    root, home = tmp_path / "work", Path(os.environ["HOME"])
    for place in (root / ".claude", home / ".claude"):
        place.mkdir(parents=True)
    (root / ".claude/settings.json").write_text('{"allowedHttpHookUrls": ["https://theirs.example/*"]}')
    trust, trusted = trust_state(root, None), trust_state(root, None, session=True)
    assert trusted.trusted and not trust.trusted
    for state in (trust, trusted):
        assert load_settings(find_home(), root, SettingFlags(), state).hook_urls is None
    (home / ".claude/settings.json").write_text('{"allowedHttpHookUrls": ["https://mine.example/*"]}')
    assert load_settings(find_home(), root, SettingFlags(), trust).hook_urls == ("https://mine.example/*",)
    assert load_settings(find_home(), root, SettingFlags(), trusted).hook_urls == (
        "https://mine.example/*",
        "https://theirs.example/*",
    )


async def test_an_answer_of_another_form_is_an_error_of_its_hook_and_ends_no_other(tmp_path):
    async def answer(hook, payload):
        raise AttributeError("'list' object has no attribute 'get'")

    hooks, _ = parse_hooks(
        {"PreToolUse": [{"hooks": [{"type": "mcp_tool", "server": "s", "tool": tool} for tool in "ab"]}]}, "x"
    )
    told: list[str] = []
    runner = HookRunner(HookIndex(hooks), HookEnvironment(tmp_path), lambda text, _level: told.append(text), answer)
    outcome = await runner.fire("PreToolUse", {}, ("Bash",))
    assert not outcome.blocked and len(told) == 2 and all("AttributeError" in text for text in told)


# ── http ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_http_hook_sends_the_event_with_the_allowed_variables_and_its_answer_refuses(
    tmp_path, receiver, monkeypatch
):
    monkeypatch.setenv("HOOK_TOKEN", "the-token")
    monkeypatch.setenv("OTHER_TOKEN", "the-other")
    address = receiver(
        json.dumps({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not here"}})
    )
    headers = {"Authorization": "Bearer ${HOOK_TOKEN}", "X-Other": "<$OTHER_TOKEN>"}
    hook = {"type": "http", "url": address.url, "headers": headers, "allowedEnvVars": ["HOOK_TOKEN"]}
    crew = await Crew(tmp_path, [WRITE, "Done."], {"PreToolUse": [hook]}).run()
    assert not crew.wrote and "not here" in crew.request(1)
    [(sent, event)] = address.received
    assert (sent["Authorization"], sent["X-Other"]) == ("Bearer the-token", "<>")
    assert (sent["Content-Type"], event["tool_name"], event["hook_event_name"]) == (
        *("application/json", "Write", "PreToolUse"),
    )


@pytest.mark.parametrize(
    ("answer", "status", "problem"),
    [
        ("", 200, ""),
        ("plain words", 200, "no JSON object"),
        ('{"decision": ', 200, "begins like JSON"),
        ('{"decision": "block", "reason": "no"}', 500, "answered 500"),
        ('{"decision": "block", "reason": "no"}', 302, "answered 302"),
        ("{" + "x" * 300_000, 200, "more than 200,000 bytes"),
        ("GZIP", 200, "in a compressed form"),
        (None, 200, "after 0.3 s|no answer in 0.3 s"),
    ],
    ids=["empty", "plain", "cut", "error", "redirect", "huge", "compressed", "silent"],
)
@pytest.mark.slow_after(1)
async def test_an_http_hook_that_fails_is_a_warning_without_its_secret_parts(
    tmp_path, receiver, caplog, answer, status, problem
):
    caplog.set_level(logging.INFO)  # of a program with its own log
    logging.getLogger("httpx2").setLevel(logging.NOTSET)
    address = receiver(answer, status)
    headers = {"Authorization": "literal-secret"}
    timeout = 0.3 if answer is None else WAIT_S
    hook = {"type": "http", "url": address.url, "headers": headers, "timeout": timeout}
    crew = await Crew(tmp_path, [WRITE, "Done."], {"PreToolUse": [hook]}).run()
    assert crew.wrote and (answer is None or len(address.received) == 1)
    told = " ".join(text for text in crew.notices if "hook" in text)
    assert any(part in told for part in problem.split("|"))
    assert "secret" not in told + caplog.text


async def test_an_http_hook_to_a_closed_port_stops_nothing(tmp_path, receiver):
    address = receiver()
    url = address.url
    address.shutdown()
    address.server_close()
    hook = {"type": "http", "url": url}
    crew = await Crew(tmp_path, [WRITE, "Done."], {"PreToolUse": [hook]}).run()
    assert crew.wrote
    assert any("cannot be reached: ConnectError" in text and "secret-path" not in text for text in crew.notices)


# ── mcp_tool ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_mcp_tool_hook_calls_its_server_with_parts_of_the_event_and_its_text_is_the_answer(tmp_path):
    said = json.dumps({"decision": "block", "reason": "scanned ${tool_input.file_path}"})
    hook = {"type": "mcp_tool", "server": "plain", "tool": "echo", "input": {"text": said}}
    servers = {"plain": {"command": sys.executable, "args": [SERVER]}}
    crew = await Crew(tmp_path, [WRITE, "Done."], {"PostToolUse": [hook]}, mcp_servers=servers).run()
    assert crew.wrote and "scanned new.txt" in crew.request(1)


@pytest.mark.parametrize(
    ("server", "tool", "problem"),
    [("nobody", "echo", "there is no MCP server 'nobody'"), ("plain", "nothing", "MCP server 'plain' answered")],
    ids=["server", "tool"],
)
async def test_an_mcp_tool_hook_that_cannot_be_called_is_a_warning(tmp_path, server, tool, problem):
    hook = {"type": "mcp_tool", "server": server, "tool": tool}
    servers = {"plain": {"command": sys.executable, "args": [SERVER]}}
    crew = await Crew(tmp_path, [WRITE, "Done."], {"PreToolUse": [hook]}, mcp_servers=servers).run()
    assert crew.wrote and any(problem in text for text in crew.notices)


# ── prompt ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def judging(*answers: str | Failure, words: list | None = None) -> ScriptedModel:
    """A model whose questions of hooks have these answers, and whose lead has these words."""
    verdicts, lead = iter(answers), iter(words or [WRITE, "Done."])
    return ScriptedModel(lambda request: next(verdicts if request.aside else lead))


async def test_a_prompt_hook_asks_the_model_about_the_event_and_its_cost_is_the_leads(tmp_path):
    model = judging('Sure:\n```json\n{"ok": false, "reason": "not here"}\n```')
    hook = {"type": "prompt", "prompt": "May this be written? $ARGUMENTS It costs \\$1.", "continueOnBlock": True}
    crew = await Crew(tmp_path, model, {"PreToolUse": [hook]}).run()
    assert not crew.wrote and crew.result.text == "Done."
    asked, answered = (crew.request(at) for at in (1, 2))
    assert '"tool_name": "Write"' in asked and asked.startswith("May this") and asked.endswith("It costs $1.")
    assert "not here" in answered and crew.cost == 3


async def test_a_refusal_ends_the_turn_unless_the_hook_continues(tmp_path):
    model = judging('{"ok": false, "reason": "not here"}')
    crew = await Crew(tmp_path, model, {"PreToolUse": [{"type": "prompt", "prompt": "May this?"}]}).run()
    assert not crew.wrote and len(model.requests) == 2
    assert any("PreToolUse refused: not here" in text for text in crew.notices)


@pytest.mark.parametrize(
    ("verdicts", "calls"),
    [
        (['{"ok": false, "reason": "the tests"}', '{"ok": true}'], 3),
        (['{"ok": false, "reason": "never", "impossible": true}'], 2),
    ],
    ids=["again", "impossible"],
)
async def test_a_stop_that_a_prompt_hook_refuses_continues_unless_it_is_impossible(tmp_path, verdicts, calls):
    model = judging(*verdicts, words=[WRITE, "Done.", "Really done."])
    crew = await Crew(tmp_path, model, {"Stop": [{"type": "prompt", "prompt": "Is it done?"}]}).run()
    assert len([one for one in model.requests if not one.aside]) == calls
    assert crew.result.text == ("Done.\n\nReally done." if calls == 3 else "Done.")


@pytest.mark.parametrize(
    "answer",
    ["I cannot say.", '{"ok": "maybe"}', Failure("refused", 400, "no such model")],
    ids=["words", "odd", "failure"],
)
async def test_a_prompt_hook_without_an_answer_stops_nothing(tmp_path, answer):
    crew = await Crew(tmp_path, judging(answer), {"PreToolUse": [{"type": "prompt", "prompt": "May this?"}]}).run()
    assert crew.wrote and any("counts for nothing (prompt: May this?)" in text for text in crew.notices)


def test_an_answer_of_many_unfinished_objects_takes_no_long_time():
    question = parse_action("prompt", "Stop", {"type": "prompt", "prompt": "Is it done?"})
    begun = time.process_time()
    for text in ("{" * 300_000, '{"a":' * 20_000):
        with pytest.raises(ValueError, match="its answer has no"):
            question_answer("Stop", question, text)
    assert time.process_time() - begun < 1
    assert question_answer("Stop", question, "{" * 300_000 + ' {"ok": true}') == {}


# ── agent ────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_agent_hook_reads_files_before_it_answers_and_no_hook_runs_for_it(tmp_path):
    lead, judge = (
        iter([WRITE, "Done."]),
        iter([Call("Read", {"file_path": "new.txt"}), '{"ok": false, "reason": "why"}']),
    )
    model = ScriptedModel(lambda request: next(lead if request.agent_name == "team-lead" else judge))
    hook = {"type": "agent", "prompt": "Is new.txt without an x? $ARGUMENTS"}
    crew = await Crew(tmp_path, model, {"PostToolUse": [hook], "SubagentStop": [hook]}).run()
    _, _, judged, _ = model.requests
    assert crew.wrote and "1\tx" in json.loads(judged.items[-1])["content"][0]["content"], crew.notices
    assert '"tool_name": "Write"' in crew.request(1) and "why" in crew.request(3)


async def test_agents_of_hooks_are_not_counted_so_that_many_calls_do_not_end_the_guard(tmp_path):
    limits = {"limits": {"spawns": 1, "spawns_per_minute": 1}}
    refusal = '{"ok": false, "reason": "not that file"}'
    lead = iter([Call("Read", {"file_path": "a"}), Call("Read", {"file_path": "b"}), WRITE, "Done."])
    model = ScriptedModel(lambda request: next(lead) if request.agent_name == "team-lead" else refusal)
    hook = {"type": "agent", "prompt": "May this? $ARGUMENTS"}
    crew = await Crew(tmp_path, model, {"PreToolUse": [hook]}, more=limits).run()
    assert not crew.wrote and "not that file" in crew.request(6), crew.notices


# ── what cannot be used ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("event", "hook", "problem"),
    [
        ("Stop", {"type": "http", "url": "ftp://host/x"}, "its url is no http or https address"),
        ("Stop", {"type": "http", "url": "http://me:pw@host/x"}, "its url is no http or https address"),
        ("Stop", {"type": "http", "url": "http://[::1"}, "its url is no http or https address"),
        ("Stop", {"type": "http", "url": "http://h", "headers": {"A": "a\nb"}}, "its headers are not names"),
        ("Stop", {"type": "http", "url": "http://h", "allowedEnvVars": ["$A"]}, "allowedEnvVars are not names"),
        ("Stop", {"type": "http", "url": "http://h", "command": "x"}, "'command' is not supported"),
        ("Stop", {"type": "mcp_tool", "server": "s"}, "it has no server or no tool"),
        ("Stop", {"type": "mcp_tool", "server": "s", "tool": "t", "input": []}, "its input is not an object"),
        ("Stop", {"type": "prompt", "prompt": " "}, "it has no prompt"),
        ("Notification", {"type": "prompt", "prompt": "x"}, "no hook of the type 'prompt' runs at this event"),
        ("PermissionRequest", {"type": "agent", "prompt": "x"}, "no hook of the type 'agent' runs at this event"),
        ("Stop", {"type": "telepathy"}, "the type 'telepathy' is not supported"),
    ],
)
def test_a_hook_that_cannot_be_used_is_left_out_with_its_reason(event, hook, problem):
    found, warnings = parse_hooks({event: [{"hooks": [hook]}]}, "settings.json")
    assert not found and problem in warnings[0]


def test_times_are_the_documented_ones_of_each_type():
    kinds = [{"type": "prompt", "prompt": "x"}, {"type": "agent", "prompt": "x"}, {"type": "http", "url": "http://h"}]
    found, _ = parse_hooks({"Stop": [{"hooks": kinds}]}, "settings.json")
    assert [one.timeout_s for one in found] == [30, 60, 60]


@pytest.mark.parametrize(
    ("event", "keys"),
    [("PermissionRequest", set()), ("TaskCompleted", {"decision", "reason"}), ("PostToolUse", {"decision", "reason"})],
)
def test_an_agents_refusal_never_ends_the_turn_and_answers_no_permission_request(event, keys):
    question = parse_action("agent", "Stop", {"prompt": "x"})
    assert set(question_answer(event, question, '{"ok": false, "reason": "r", "impossible": true}')) == keys
