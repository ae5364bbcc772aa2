"""What the lead and the members of the crash suite say: every answer follows from the conversation, from nothing else.

So a process that goes on after a kill goes on rightly, as with a real model. The job is a graph of tasks whose results
are numbers: each is made of those of its blockers, so a task that was done too early, twice, or by nobody shows.
"""

import asyncio
import json
import random
import re
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from teamwright.models.model import ModelCard, Reply, TextPart
from teamwright.protocol.messages import message_text
from teamwright.protocol.runtime_tags import parse_sender, unescape_tags
from teamwright.protocol.usage import Usage
from tests.support.notices import notices

TEAM = "crew"
PROMPT = "DO THE JOB."
DONE = "ALL DONE"
STAFF = ("ada", "bob", "cyd", "dee")
SLEEPER = "sleep 600.7"
"""A command that nobody waits for; it must not outlive the run."""

_LISTED = re.compile(r"^#(\d+) \[\w+\] job (\d+)\b", re.MULTILINE)
"""A line of TaskList."""

SIZES = (0,) * 8 + (300,) * 4 + (3_000,) * 3 + (5_000, 20_000, 200_000)


# ── the job ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Plan:
    """The job of one round, made from its seed alone."""

    def __init__(self, seed: str) -> None:
        dice = random.Random(f"plan {seed}")
        self.first = dice.randint(9, 13)
        """How many tasks there are at the beginning; three more come later."""
        self.count = self.first + 3
        self.needs = [sorted(dice.sample(range(k), min(k, dice.choice((0, 1, 1, 2))))) for k in range(self.first)]
        self.needs += [[]] * 3
        self.sizes = [dice.choice(SIZES) for _ in range(self.count)]
        self.deletes = dice.random() < 0.3
        self.mannered = dice.random() < 0.85
        """Whether strangers take locks; a member that others write off the roster is lost with a kill, and told of."""
        self.stops = dice.random() < 0.5
        """Whether eve is ended from another process."""
        self.tasks = ""
        """The name of a task list that other sessions may share; empty: the team's own."""
        self.errand: Callable[[Talk, str, int], list] = lambda talk, me, k: []
        """What else a member does for a task, by its tag and the task's number: its next calls."""

    def result(self, k: int) -> int:
        """The number that task `k` must give."""
        return (k * 7 + 1 + sum(self.result(one) for one in self.needs[k])) % 1_000_003

    @property
    def total(self) -> int:
        """The sum of all numbers."""
        return sum(self.result(k) for k in range(self.count))


# ── what a conversation holds ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Made:
    """One call of a tool and what came of it. `failed` None: no result yet."""

    tool: str
    given: dict
    text: str = ""
    failed: bool | None = None

    @property
    def cut_off(self) -> bool:
        """Whether a signal ended it, or came before it: it may have had its effect or not."""
        return bool(self.failed) and ("interrupted before it ended" in self.text or "before this call ran" in self.text)


@lru_cache(maxsize=8192)
def message_of(item: bytes) -> dict:
    return json.loads(item)


_ENVELOPE = re.compile(r'teammate_id="([^"]+)"[^>]*>\n(.*?)\n</teammate-message>', re.DOTALL)


class Talk:
    """A conversation as its agent sees it: `mail` (sender, text) and `calls` in order, `since` the last TaskList."""

    def __init__(self, items) -> None:
        self.mail: list[tuple[str, str]] = []
        self.calls: list[Made] = []
        self.since = 0
        self.starts = Counter[str]()
        """How often each member was started, as far as the results of the calls tell."""
        self.asked_to_stop = set[str]()
        """Members that were asked to stop at the end, and have not ended since."""
        places: dict[str, int] = {}
        for item in items:
            message = message_of(bytes(item))
            for block in message["content"]:
                if block["type"] == "tool_use":
                    places[block["id"]] = len(self.calls)
                    self.calls.append(Made(block["name"], block["input"]))
                    self._note_stop(block["name"], block["input"])
                    self.since = 0 if block["name"] == "TaskList" else self.since
                elif block["type"] == "tool_result":
                    at = places[block["tool_use_id"]]
                    text = block["content"] if isinstance(block["content"], str) else message_text(block["content"])
                    self.calls[at] = Made(self.calls[at].tool, self.calls[at].given, text, bool(block.get("is_error")))
                    self._count_start(self.calls[at])
                elif message["role"] == "user":
                    self._hear(block.get("text", ""))

    def _note_stop(self, tool: str, given: dict) -> None:
        if tool == "SendMessage" and "the end" in str(given.get("message")):
            self.asked_to_stop.add(given["to"])

    def _count_start(self, call: Made) -> None:
        if call.tool != "Agent" or "name" not in call.given:
            return
        name = call.given["name"]
        if not call.failed or "was started, and" in call.text:
            self.starts[name] += 1
        elif "already a live member of the team" in call.text:  # a kill cut off the call that started it
            self.starts[name] = max(self.starts[name], ended(self, name) + 1)

    def _hear(self, text: str) -> None:
        for sender, body in _ENVELOPE.findall(text):
            self.mail.append((parse_sender(sender), unescape_tags(body)))
            self.asked_to_stop -= {one["name"] for one in notices("teammate_terminated", self.mail[-1][1])}
            self.since += body.startswith(("done ", "again ")) or " has ended: " in body[:80]

    def of(self, tool: str, **given) -> list[Made]:
        """The calls of a tool with this input among the rest."""
        return [c for c in self.calls if c.tool == tool and all(c.given.get(k) == v for k, v in given.items())]

    def over(self, tool: str, **given) -> list[Made]:
        """The same without those that a signal cut off: only what is asked for again may be among them."""
        return [call for call in self.of(tool, **given) if not call.cut_off]

    def sent(self, beginning: str) -> bool:
        """Whether a message that begins so was sent, or tried to."""
        texts = (c.given.get("message") for c in self.of("SendMessage"))
        return any(isinstance(text, str) and (text + " ").startswith(beginning + " ") for text in texts)

    def protocol(self, kind: str) -> list[dict]:
        """Protocol messages of a type that were told."""
        return [one for _, text in self.mail for one in notices(kind, text)]


def send(to: str, text: str, size: int = 0):
    return ("SendMessage", {"to": to, "message": text + (" " + "z" * (size - len(text)) if size > len(text) else "")})


def answers(talk: Talk) -> list:
    """Whoever asked gets one answer."""
    asked = [(sender, text.split()[1]) for sender, text in talk.mail if text.startswith("ask ")]
    return [send(sender, f"ack {token}") for sender, token in asked if not talk.sent(f"ack {token}")]


# ── members ──────────────────────────────────────────────────────────────────────────────────────────────────────


def member(talk: Talk, plan: Plan) -> list | str:
    """The answer of a member: mail, then its tasks in order, then a request to stop."""
    calls = answers(talk)
    told = [re.match(r"[^\n]*#(\d+) [^\n]*?job (\d+)\n", text) for sender, text in talk.mail if sender == "task-list"]
    for found in filter(None, told):
        if step := work(talk, plan, found[1], int(found[2])):
            return [*calls, *step]
    return calls or stop(talk) or "Nothing more."


def tag_of(talk: Talk) -> str:
    """Which life of which name this is, as its first prompt says."""
    return next(found[1] for _, text in talk.mail if (found := re.match(r"You are ([a-z]+\.[0-9]+)", text)))


def work(talk: Talk, plan: Plan, id: str, k: int) -> list:
    """The next step of a task; nothing when it is over."""
    me = tag_of(talk)
    peer, other = (STAFF[(k + n) % len(STAFF)] for n in (0, 1))
    seen = talk.over("TaskGet", taskId=id)
    if not seen:
        return [("TaskGet", {"taskId": id})]
    lines = re.findall(r"^Block(?:ed by|ers that are done): (.*)$", seen[0].text, re.MULTILINE)
    blockers = re.findall(r"#(\d+)", " ".join(lines))
    later = talk.calls[talk.calls.index(seen[0]) + 1 :]
    shown = {call.given["taskId"]: call.text for call in later if call.tool == "TaskGet" and not call.cut_off}
    if unseen := [one for one in blockers if one not in shown]:
        return [("TaskGet", {"taskId": one}) for one in unseen]
    first = []
    if peer != me.split(".")[0] and not talk.sent(f"ask {me}-{k}"):
        first.append(send(peer, f"ask {me}-{k}", plan.sizes[k]))
    if other != me.split(".")[0] and not talk.sent("x") and k % 2:
        first.append(send(other, "x"))
    if k % 4 == 1 and not talk.of("Bash", command=f"echo {k}"):
        first.append(("Bash", {"command": f"echo {k}"}))
    if k == 3 and not talk.of("Bash", command=SLEEPER):
        first.append(("Bash", {"command": SLEEPER, "run_in_background": True}))
    first += plan.errand(talk, me, k)
    if first:
        return first
    if not talk.over("TaskUpdate", taskId=id, status="completed"):
        result = (k * 7 + 1 + sum(result_in(shown[one]) for one in blockers)) % 1_000_003
        return [("TaskUpdate", {"taskId": id, "status": "completed", "metadata": {"result": result, "by": me}})]
    if not talk.sent(f"done {k}"):
        return [send("lead", f"done {k} {me}", plan.sizes[-k] // 10)]
    lost = talk.of("SendMessage", to="lead")
    if any(call.cut_off and str(call.given["message"]).startswith(f"done {k} ") for call in lost):
        return [] if talk.sent(f"again {k}") else [send("lead", f"again {k} {me}")]
    return []


def result_in(shown: str) -> int:
    """The number of a completed task; what is not one spoils the sum."""
    found = re.search(r"^Metadata: (.*)$", shown, re.MULTILINE)
    return json.loads(found[1]).get("result", -(10**9)) if found else -(10**9)


def stop(talk: Talk) -> list:
    """It objects to the request that is the first of two, and agrees to others."""
    calls = []
    for request in talk.protocol("shutdown_request"):
        made = [c for c in talk.of("SendMessage") if answered(c) == request["request_id"]]
        if made and not made[-1].cut_off:
            continue
        agrees = "first" not in request["reason"]
        words = {"type": "shutdown_response", "request_id": request["request_id"], "approve": agrees}
        calls.append(("SendMessage", {"to": "lead", "message": words if agrees else words | {"reason": "not yet"}}))
    return calls[:1]


def answered(call: Made) -> str:
    words = call.given.get("message")
    return words.get("request_id", "") if isinstance(words, dict) else ""


# ── the lead ─────────────────────────────────────────────────────────────────────────────────────────────────────


def lead(talk: Talk, plan: Plan) -> list | str:
    """The answer of the lead: make the team and the list, start everybody, see the list through, end everybody."""
    for step in (begin, answers, look, change_staff, finish):
        if calls := step(talk) if step is answers else step(talk, plan):
            return calls
    return "I wait."


def begin(talk: Talk, plan: Plan) -> list:
    if not talk.over("TeamCreate"):
        return [("TeamCreate", {"team_name": TEAM})]
    if tasks := create(talk, range(plan.first), reserved=2 if plan.mannered else -1):
        return tasks
    ids = ids_of(talk)
    edges = [k for k in range(plan.first) if plan.needs[k] and not talk.over("TaskUpdate", taskId=ids.get(k, "0"))]
    if edges:
        return [
            ("TaskUpdate", {"taskId": ids.get(k, "0"), "addBlockedBy": [ids.get(one, "0") for one in plan.needs[k]]})
            for k in edges[:4]
        ]
    if not talk.of("Agent"):
        return [start(name, 1) for name in STAFF]
    return [send(name, f"ask lead-{name}.1", 3_000) for name in STAFF if not talk.sent(f"ask lead-{name}.1")]


def create(talk: Talk, tasks, reserved: int = -1) -> list:
    """The next tasks. One whose creation was cut off is looked for on the list before it is created again."""
    asked = [call for call in talk.of("TaskCreate") if call.given["subject"] in {f"job {k}" for k in tasks}]
    if any(call.cut_off for call in asked):
        last = max(n for n, call in enumerate(talk.calls) if call.tool == "TaskCreate" and call.cut_off)
        if not any(call.tool == "TaskList" and not call.cut_off for call in talk.calls[last:]):
            return [("TaskList", {})]
    listed = {f"job {k}" for k in ids_of(talk)}
    made = {call.given["subject"] for call in asked if not call.cut_off} | listed
    calls = [{"subject": f"job {k}", "description": f"Make the number of job {k}."} for k in tasks]
    calls = [call | ({"metadata": {"for": ["ada"]}} if call["subject"] == f"job {reserved}" else {}) for call in calls]
    return [("TaskCreate", call) for call in calls if call["subject"] not in made][:5]


def ids_of(talk: Talk) -> dict[int, str]:
    """The numbers that the list gave to the tasks of the job."""
    created = (re.match(r"Task #(\d+) created: job (\d+)", call.text) for call in talk.of("TaskCreate"))
    listed = (one for call in talk.of("TaskList") for one in _LISTED.finditer(call.text))
    return {int(one[2]): one[1] for one in (*created, *listed) if one}


def start(name: str, life: int, attempt: int = 0):
    """The call that starts a member. `attempt` tells it from an earlier one that failed, for the guard of repeats."""
    prompt = f"You are {name}.{life}. Take tasks until there are none."
    return ("Agent", {"description": f"works {attempt}" if attempt else "works", "name": name, "prompt": prompt})


def look(talk: Talk, _plan: Plan) -> list:
    return [("TaskList", {})] if talk.since else []


def done_in(talk: Talk) -> set[int]:
    listed = talk.of("TaskList")
    return {int(k) for k in re.findall(r"\[completed\] job (\d+)", listed[-1].text)} if listed else set()


def change_staff(talk: Talk, plan: Plan) -> list:
    """Half way dee is asked to stop, objects, is asked again; then a new dee and eve come, and more tasks."""
    asked = [call for call in talk.of("SendMessage", to="dee") if isinstance(call.given["message"], dict)]
    if len(done_in(talk)) < plan.first // 3:
        return []
    if not asked:
        return [ask_to_stop("dee", "the first time")]
    if len(asked) == 1 and any(body["sender"] == "dee" for body in talk.protocol("shutdown_rejected")):
        return [ask_to_stop("dee", "really")]
    if not ended(talk, "dee"):
        return []
    if not talk.of("Agent", name="eve"):
        return [start("dee", 2), start("eve", 1)]
    return create(talk, range(plan.first, plan.count))


def ask_to_stop(name: str, reason: str):
    return ("SendMessage", {"to": name, "message": {"type": "shutdown_request", "reason": reason}})


def ended(talk: Talk, name: str) -> int:
    return sum(body["name"] == name for body in talk.protocol("teammate_terminated"))


def finish(talk: Talk, plan: Plan) -> list | str:
    if len(done_in(talk)) < plan.count or not talk.of("Agent", name="eve"):
        return []
    alive = [name for name in (*STAFF, "eve") if len(talk.of("Agent", name=name)) > ended(talk, name)]
    last = [call.given["to"] for call in talk.of("SendMessage") if "the end" in str(call.given["message"])]
    if calls := [ask_to_stop(name, "the end") for name in alive if name not in last]:
        return calls
    if alive:
        return []
    if plan.deletes and not talk.of("TeamDelete"):
        return [("TeamDelete", {})]
    return f"{DONE} {plan.total}"


# ── the model ────────────────────────────────────────────────────────────────────────────────────────────────────


class Player:
    """A model that plays all parts of a plan. It thinks for a moment, so that a kill can meet it there."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        # A player knows only what its conversation holds: three of the longest messages must not compact it.
        self.card = ModelCard("player", "player", "scripted", context_tokens=10**7, usd_in=0.0, usd_out=0.0)

    async def aclose(self) -> None:
        """Nothing is open."""

    async def stream(self, request):
        talk = Talk(request.items)
        answer = (lead if request.agent_name in {"team-lead", "lead"} else member)(talk, self.plan)
        await asyncio.sleep(random.uniform(0, 0.004))
        if isinstance(answer, str):
            yield TextPart(answer)
            content, reason = [{"type": "text", "text": answer}], "end_turn"
        else:
            content, reason = [], "tool_use"
            for tool, given in answer:
                content.append({"type": "tool_use", "id": f"call_{secrets.token_hex(6)}", "name": tool, "input": given})
        yield Reply(content, reason, Usage(requests=1), "player")
