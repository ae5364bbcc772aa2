"""Honest health: one table says in which state a member is for people and for the lead, and what it waits for.

The same rows for the process that runs the team and for a command that reads files. Knows what was seen of a member;
probes nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.values import dataclass
from teamwright.teams.health.standing import SUSPENDED, Asked, MemberStanding, Standing
from teamwright.teams.lifecycle import LIMITED, State


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of a member. `alive`: it was probed, and its process or coroutine is there.

    `failed` says why its last turn failed. `asks` is the open request that it waits for; `blockers` are the open
    tasks, with their owners in words, that all of its own open tasks wait for; `answer_of` are those it wrote to and
    who have not answered.
    """

    state: str
    alive: bool = True
    why: str = ""
    doing: str = ""
    what: str = ""
    stalled: bool = False
    asks: str = ""
    blockers: str = ""
    answer_of: str = ""
    failed: str = ""


class Health(NamedTuple):
    """The state in one word, and on what it waits or what it does; empty when there is nothing to say."""

    state: str
    on: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One state: when it holds, and what is said beside it."""

    state: str
    holds: Callable[[Seen], object]
    on: Callable[[Seen], str]


_AT_WORK = frozenset({str(State.PENDING), str(State.WORKING)})

TABLE: tuple[Row, ...] = (
    Row("crashed", lambda s: s.state == State.CRASHED, lambda s: s.why),
    Row("failed", lambda s: s.state == State.FAILED, lambda s: s.why),
    Row("killed", lambda s: s.state == State.KILLED, lambda s: s.why),
    Row("failed", lambda s: s.state == State.COMPLETED and s.failed, lambda s: s.failed),
    Row("completed", lambda s: s.state == State.COMPLETED, lambda s: s.why),
    Row(SUSPENDED, lambda s: s.state == SUSPENDED, lambda s: s.failed or s.why),
    Row("dead", lambda s: not s.alive, lambda s: s.why or "its process is gone"),
    Row("stopping", lambda s: s.state == State.STOPPING, lambda s: "was asked to stop, and may object"),
    Row("awaiting", lambda s: s.state == State.AWAITING, lambda s: s.why),
    Row("blocked", lambda s: s.state == State.BLOCKED or s.asks, lambda s: s.asks or s.why),
    Row("waiting", lambda s: s.state in _AT_WORK and s.doing == "pause", lambda s: s.what),
    Row("stalled", lambda s: s.state in _AT_WORK and s.stalled, lambda s: _stalled(s)),
    Row("working", lambda s: s.state in _AT_WORK, lambda s: _doing(s)),
    Row("waiting", lambda s: s.state == State.IDLE and s.why == LIMITED, lambda s: s.why),
    Row("failed", lambda s: s.state == State.IDLE and s.failed, lambda s: s.failed),
    Row("waiting", lambda s: s.blockers, lambda s: s.blockers),
    Row("waiting", lambda s: s.answer_of, lambda s: f"an answer of {s.answer_of}"),
    Row("idle", lambda s: s.state == State.IDLE, lambda s: ""),
    Row("unknown", lambda s: True, lambda s: s.why),
)
"""The first row that holds is the member's state."""

WORDS = tuple(dict.fromkeys(row.state for row in TABLE))
"""Every state that there is."""

WAITS = frozenset({"waiting", "awaiting", "blocked", "stopping"})
"""States in which what stands beside is what the member waits for."""


def health(seen: Seen) -> Health:
    """The member's state, by the table."""
    row = next(row for row in TABLE if row.holds(seen))
    return Health(row.state, row.on(seen))


def _doing(seen: Seen) -> str:
    if seen.state == State.PENDING:
        return "starts"
    return {"model": "the model answers", "tool": seen.what}.get(seen.doing, "")


def _stalled(seen: Seen) -> str:
    return "nothing comes of the model" if seen.doing == "model" else "nothing happens, though it is at work"


# ── what is seen ─────────────────────────────────────────────────────────────────────────────────────────────


class OpenTask(NamedTuple):
    """A task that is not completed: its owner, and the open tasks it waits for."""

    owner: str
    waits_for: Sequence[str]


def seen_of(
    member: MemberStanding, standing: Standing, tasks: Mapping[str, OpenTask], *, alive: bool = True, why: str = ""
) -> Seen:
    """What the fold of the events and the open tasks by number tell of a member. `why` it is dead, if it is."""
    asks = [one for one in standing.requests.values() if one.holds_up(member.name)]
    idle = member.state == State.IDLE
    return Seen(
        state=member.state,
        alive=alive and not member.lost,
        why=member.detail if member.gone or member.state == SUSPENDED else why or member.detail,
        doing=member.doing,
        what=member.what,
        stalled=member.stalled,
        failed=member.failed,
        asks=_asks(asks[0], len(asks) - 1) if asks else "",
        blockers=blockers_of(member.name, tasks) if idle else "",
        answer_of=_answer_of(member, standing, tasks) if idle else "",
    )


def blockers_of(name: str, tasks: Mapping[str, OpenTask]) -> str:
    """What all open tasks of this member wait for, in words: `#3 (historian)`; empty when one of them could go on."""
    own = [task for task in tasks.values() if task.owner == name]
    if not own or not all(task.waits_for for task in own):
        return ""
    ids = dict.fromkeys(id for task in own for id in task.waits_for)
    return _listed(
        [f"#{id} ({_shown(tasks[id].owner)})" if id in tasks and tasks[id].owner else f"#{id}" for id in ids]
    )


def _answer_of(member: MemberStanding, standing: Standing, tasks: Mapping[str, OpenTask]) -> str:
    """Whose answer it waits for: it went to rest after writing to them, and they have not written since.

    A word to the lead, or to one who is gone, is a question only of somebody who still has a task in hand.
    """
    has_task = any(task.owner == member.name for task in tasks.values())
    return _listed([_shown(name) for name in member.wrote_to if has_task or _teammate(name, standing)])


def _teammate(name: str, standing: Standing) -> bool:
    other = standing.members.get(name)
    return name != LEAD and other is not None and not other.gone


def _asks(asked: Asked, more: int) -> str:
    line = asked.what.strip().split("\n", 1)[0][:100]
    said = {"question": f"the user's answer: {line}", "plan": "approval of its plan"}.get(asked.kind)
    by = "" if asked.owner in {"", asked.member} else f", asked by {_shown(asked.member)[:100]}"
    also = f", and {more} more" if more else ""
    return (said or f"permission for {asked.tool} {line}".rstrip()) + by + also


def _shown(name: str) -> str:
    return LEAD_ALIAS if name == LEAD else name


def _listed(words: Collection[str], most: int = 3) -> str:
    shown = list(words)[:most]
    more = len(words) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
