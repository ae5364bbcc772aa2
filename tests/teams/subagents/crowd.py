"""Parts for tests of sub-agents: a lead that answers from a list, children that say what their job asks of them."""

import asyncio
import json
import re
from collections.abc import Callable

from teamwright import Team
from teamwright.models.model import Failure
from teamwright.protocol.ids import LEAD
from teamwright.subagents.subagent_run import SubagentRun
from teamwright.testing import Call, ScriptedModel
from tests.support.waits import WAIT_S
from tests.teams.crew import newest

NOTICE = re.compile(r'(?:^|")<task-notification[^>]*>\s*(?:\\n)?<task-id>(\w+)</task-id>', re.S | re.M)
"""A notice at the beginning of a text: one that an answer quotes does not count."""


def notices_in(text: str) -> list[str]:
    """Return the ids of the notices in what a model was sent, as text or as JSON."""
    return NOTICE.findall(text)


def start(prompt: str, **more: object) -> Call:
    """A call of Agent."""
    return Call("Agent", {"description": f"job {prompt[:20]}", "prompt": prompt} | more)


def behind(prompt: str, **more: object) -> Call:
    """A call of Agent that does not wait."""
    return start(prompt, run_in_background=True, **more)


class Children(ScriptedModel):
    """The lead plays `lead`; once that is used up it says what it was told. A child answers `done: <its newest words>`.

    Words with `hold` make it think first until `go` is set, `fail` makes it fail, `work` run a command before it
    answers; one whose job has `stall` never gets to its second answer.
    """

    def __init__(self, *lead: object) -> None:
        super().__init__(self._said)
        self.lead = list(lead)
        self.stalls = True
        self.go = asyncio.Event()
        self.thinking = asyncio.Event()

    def _said(self, request):
        words = newest(request)
        if request.agent_name == LEAD:
            answer = self.lead.pop(0) if self.lead else f"told: {words}"
            return answer(request) if callable(answer) else answer
        if b'"tool_result"' in request.items[-1]:
            return f"done: {words[:60]}"
        if "fail" in words:
            return Failure("model-failed", "it broke")
        if "work" in words:
            return ["begun", ("Bash", {"command": "echo worked"})]
        return f"done: {words[:60]}"

    async def stream(self, request):
        if request.agent_name != LEAD and "hold" in newest(request):
            self.thinking.set()
            await self.go.wait()
        if self.stalls and request.agent_name != LEAD and len(request.items) > 1 and b"stall" in request.items[0]:
            self.thinking.set()
            await asyncio.Event().wait()
        async for part in super().stream(request):
            yield part

    def told(self, asker: str = LEAD) -> str:
        """All that this agent was sent with its newest request."""
        last = [request for request in self.requests if request.agent_name == asker][-1]
        return "\n".join(item.decode() for item in last.items)

    def notices(self, asker: str = LEAD) -> list[str]:
        """The notices that this agent was told, by the id in each."""
        return notices_in(self.told(asker))


def crew(tmp_path, model, **more) -> Team:
    settings = more.pop("settings", {}) | {"limits": {"spawns": 200, "spawns_per_minute": 200, "agents": 40}}
    file = tmp_path / "given.json"
    file.write_text(json.dumps(settings))
    (tmp_path / "work").mkdir(exist_ok=True)
    kept = {"permission_mode": "bypassPermissions", "settings_file": file} | more
    return Team("crew", model=model, cwd=tmp_path / "work", **kept)


def only(team: Team) -> SubagentRun:
    [run] = team.session.agents.runs.values()
    return run


def results(model: ScriptedModel, asker: str = LEAD) -> list[str]:
    """Results of calls that this agent read, oldest first."""
    last = [request for request in model.requests if request.agent_name == asker][-1]
    found = []
    for item in last.items:
        for block in json.loads(item)["content"]:
            if isinstance(block, dict) and block["type"] == "tool_result":
                content = block["content"]
                found.append(content if isinstance(content, str) else "\n".join(b["text"] for b in content))
    return found


async def until(team: Team, condition: Callable[[], object]) -> None:
    """Wait until it holds; looked at whenever something happens."""
    happened = asyncio.Event()
    unsubscribe = team.session.log.subscribe(lambda _number, _event: happened.set())
    try:
        async with asyncio.timeout(WAIT_S):
            while not condition():
                happened.clear()
                await happened.wait()
    finally:
        unsubscribe()
