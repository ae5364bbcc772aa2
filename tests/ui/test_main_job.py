"""The main job end to end: the real program, a real server on loopback that scripts a lead and three teammates."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.testing.model_server import LoopbackModel
from teamwright.testing.model_server_replies import Answer
from tests.support import preloaded
from tests.support.model_requests import is_session_note, teammate_of
from tests.support.notices import notices, request_ids
from tests.support.waits import WAIT_S

MEMBERS = ("ada", "ben", "cyd")
EDGES = {3: [1], 4: [1, 2], 5: [3], 6: [4, 5]}
FINAL = "FINAL: six tasks done by three members."


def who(body: dict) -> str:
    return teammate_of(body) or "team-lead"


def texts_of(message: dict) -> str:
    return "\n".join(b["text"] for b in message["content"] if b["type"] == "text" and not is_session_note(b["text"]))


def all_told(body: dict) -> str:
    return "\n".join(texts_of(m) for m in body["messages"] if m["role"] == "user")


def all_results(body: dict) -> list[tuple[str, str, bool]]:
    names = {
        b["id"]: b["name"]
        for m in body["messages"]
        if m["role"] == "assistant"
        for b in m["content"]
        if b["type"] == "tool_use"
    }
    out = []
    for message in body["messages"]:
        for b in message["content"] if message["role"] == "user" else []:
            if b["type"] == "tool_result":
                content = b["content"] if isinstance(b["content"], str) else b["content"][0]["text"]
                out.append((names[b["tool_use_id"]], content, b.get("is_error", False)))
    return out


class Players:
    """Decides each answer from the request alone, as a model would."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.snapshots: list[dict[str, str]] = []

    def __call__(self, body: dict) -> Answer:
        name = who(body)
        return self.lead(body) if name == "team-lead" else self.member(name, body)

    def lead(self, body: dict) -> Answer:
        made = [block for m in body["messages"] if m["role"] == "assistant" for block in m["content"]]
        calls = [block for block in made if block["type"] == "tool_use"]
        count = {
            kind: sum(c["name"] == kind for c in calls)
            for kind in ("TeamCreate", "TaskCreate", "TaskUpdate", "Agent", "TeamDelete")
        }
        if not count["TeamCreate"]:
            return Answer(tools=[("TeamCreate", {"team_name": "Release Team", "description": "a release"})])
        if not count["TaskCreate"]:
            return Answer(
                tools=[("TaskCreate", {"subject": f"job {n}", "description": f"do job {n}"}) for n in range(1, 7)]
            )
        if not count["TaskUpdate"]:
            return Answer(
                tools=[
                    ("TaskUpdate", {"taskId": str(n), "addBlockedBy": [str(b) for b in on]}) for n, on in EDGES.items()
                ]
            )
        if not count["Agent"]:
            return Answer(
                tools=[
                    (
                        "Agent",
                        {
                            "description": f"start {m}",
                            "prompt": f"You help, {m}.",
                            "subagent_type": "general-purpose",
                            "name": m,
                        },
                    )
                    for m in MEMBERS
                ]
            )
        sends = [c["input"] for c in calls if c["name"] == "SendMessage"]
        if not any(s["to"] == "ghost" for s in sends):
            self.snapshot()
            return Answer(tools=[("SendMessage", {"to": "ghost", "message": "are you there?", "summary": "a test"})])
        return self.lead_later(body, calls, sends)

    def lead_later(self, body: dict, calls: list, sends: list) -> Answer:
        told = all_told(body)
        last = body["messages"][-1]["content"][-1]
        if last["type"] == "text" and not any(s["to"] == "*" for s in sends):
            return Answer(tools=[("TaskList", {})])
        results = all_results(body)
        done = [r for n, r, _ in results if n == "TaskList" and r.count("[completed]") == 6]
        if done and not any(s["to"] == "*" for s in sends):
            self.snapshot()
            return Answer(tools=[("SendMessage", {"to": "*", "message": "All six are done.", "summary": "all done"})])
        if done:
            asked = [s["to"] for s in sends if isinstance(s["message"], dict)]
            rejected = notices("shutdown_rejected", told)
            if not asked:
                return Answer(
                    tools=[
                        ("SendMessage", {"to": m, "message": {"type": "shutdown_request", "reason": "done"}})
                        for m in MEMBERS
                    ]
                )
            if rejected and asked.count("ada") < 2:
                return Answer(
                    tools=[("SendMessage", {"to": "ada", "message": {"type": "shutdown_request", "reason": "really"}})]
                )
            gone = {one["name"] for one in notices("teammate_terminated", told)}
            if gone == set(MEMBERS) and not any(c["name"] == "TeamDelete" for c in calls):
                self.snapshot()
                return Answer(tools=[("TeamDelete", {})])
            if any(c["name"] == "TeamDelete" for c in calls):
                return Answer(FINAL)
        return Answer("I wait for the team.")

    def member(self, name: str, body: dict) -> Answer:
        last = body["messages"][-1]
        told = texts_of(last)
        if "shutdown_request" in told:
            request_id = request_ids(told)[-1]
            refuse = name == "ada" and all_told(body).count("shutdown_request") == 1
            answer = {"type": "shutdown_response", "request_id": request_id, "approve": not refuse}
            if refuse:
                answer["reason"] = "I have not tidied up yet"
            return Answer(tools=[("SendMessage", {"to": "lead", "message": answer})])
        claimed = re.search(r'teammate_id="task-list"[^>]*>\n#(\d+)', told)
        if claimed:
            return Answer(tools=[("Bash", {"command": f"echo job {claimed[1]} by {name}", "description": "the job"})])
        if last["content"][0]["type"] == "tool_result":
            return self.after_call(name, body)
        if f"You help, {name}." in told:
            peer = MEMBERS[(MEMBERS.index(name) + 1) % 3]
            return Answer(tools=[("SendMessage", {"to": peer, "message": f"hello from {name}", "summary": "hello"})])
        return Answer("noted")

    def after_call(self, name: str, body: dict) -> Answer:
        tool, result, _ = all_results(body)[-1]
        if tool == "Bash":
            number = re.search(r"job (\d) by", result)[1]
            return Answer(tools=[("TaskUpdate", {"taskId": number, "status": "completed"})])
        if tool == "TaskUpdate":
            jobs = [r for n, r, _ in all_results(body) if n == "Bash"]
            return Answer(f"REPORT {name} {re.search(r'job (.) by', jobs[-1])[1]}")
        return Answer("ready")

    def snapshot(self) -> None:
        files = {}
        for root in ("teams", "tasks"):
            for path in sorted((self.home / root).rglob("*.json")):
                files[str(path.relative_to(self.home))] = path.read_text()
        self.snapshots.append(files)


def play(repo: Path, home: Path, seed: int, delay: float) -> tuple[subprocess.CompletedProcess, Players, LoopbackModel]:
    players = Players(home)
    with LoopbackModel.in_thread(players, delay_s=(0.0, delay), seed=seed) as server:
        env = os.environ | {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": "sk-test-not-a-key",
            "TEAMWRIGHT_HOME": str(home),
        }
        command = [sys.executable, "-m", "teamwright", "-p", "Make the release.", "--dangerously-skip-permissions"]
        command += ["--output-format", "stream-json", "--verbose"]
        done = preloaded.run(command, cwd=repo, env=env, text=True, timeout=WAIT_S, stdin=subprocess.DEVNULL)
    return done, players, server


def lines_of(done: subprocess.CompletedProcess) -> list[dict]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_clean(done: subprocess.CompletedProcess, server: LoopbackModel) -> None:
    assert done.returncode == 0, done.stderr
    lines = lines_of(done)
    result = lines[-1]
    assert (result["type"], result["subtype"], result["result"]) == ("result", "success", FINAL)
    lead = [b for b in server.bodies if who(b) == "team-lead"][-1]
    told = all_told(lead)
    for number in range(1, 7):
        assert len(re.findall(rf"REPORT \w+ {number}", told)) == 1, f"report {number} seen exactly once"
    events = [line["event"] for line in lines if line.get("subtype") == "team_event"]
    finished = [e["task"]["id"] for e in events if e["type"] == "task_changed" and e["change"] == "completed"]
    assert sorted(finished) == ["1", "2", "3", "4", "5", "6"]
    for task, blockers in EDGES.items():
        assert all(finished.index(str(b)) < finished.index(str(task)) for b in blockers)
    claims = [e["task"]["id"] for e in events if e["type"] == "task_changed" and e["change"] == "claimed"]
    assert sorted(claims) == ["1", "2", "3", "4", "5", "6"]
    ghost = [r for n, r, wrong in all_results(lead) if n == "SendMessage" and wrong]
    assert len(ghost) == 1
    assert "ghost" in ghost[0] and "ada" in ghost[0]
    assert len(notices("shutdown_rejected", told)) == 1


@pytest.mark.promise("C7c", "D6", "F01", "F08", "F09", "F70", "H8", "B6", "C8")
def test_a_scripted_team_of_four_does_six_tasks_and_the_run_ends_by_itself(tmp_path, repo):
    home = tmp_path / "state"
    done, players, server = play(repo, home, seed=1, delay=0.0)
    check_clean(done, server)
    after_spawn, before_delete = players.snapshots[0], players.snapshots[-1]
    config = json.loads(after_spawn["teams/release-team/config.json"])
    assert config["name"] == "Release Team"
    assert list(config) == ["name", "description", "createdAt", "leadAgentId", "leadSessionId", "members"]
    assert list(config["members"][0]) == [
        "agentId", "name", "agentType", "model", "joinedAt", "tmuxPaneId", "cwd", "subscriptions",
    ]  # fmt: skip
    assert list(config["members"][1])[:12] == [
        "agentId", "name", "agentType", "model", "prompt", "color", "planModeRequired", "joinedAt", "tmuxPaneId", "cwd",
        "subscriptions", "backendType",
    ]  # fmt: skip
    assert [m["name"] for m in config["members"]] == ["team-lead", *MEMBERS]
    assert [m.get("color") for m in config["members"]] == [None, "blue", "green", "yellow"]
    first = json.loads(after_spawn["teams/release-team/inboxes/ada.json"])[0]
    assert (first["from"], first["text"]) == ("team-lead", "You help, ada.")
    assert list(first)[-2:] == ["msg_id", "read"]
    task = json.loads(after_spawn["tasks/release-team/4.json"])
    assert task["blockedBy"] == ["1", "2"]
    assert list(task)[:3] == ["id", "subject", "description"]
    assert not any("ghost" in name for name in after_spawn)
    left = json.loads(before_delete["teams/release-team/config.json"])
    assert [m["name"] for m in left["members"]] == ["team-lead"]
    assert not (home / "teams" / "release-team").exists()
    assert list((home / "archive").iterdir())


@pytest.mark.slow
@pytest.mark.promise("P1", "P2", "D6")
@pytest.mark.parametrize("seed", range(10))
def test_replies_that_come_late_at_random_change_nothing(tmp_path, repo, seed):
    done, _, server = play(repo, tmp_path / "state", seed=seed, delay=0.15)
    check_clean(done, server)
