"""Compaction: a conversation that grows too long goes on from a summary that its own agent writes.

By itself when the context passes its share of the agent's own window, or when the service says that it is full; by hand
at any time. Only whole rounds are folded, up to the last complete answer, and the file keeps every line. Nothing is
changed before the summary is there: a kill, a failure or a spent budget leaves the conversation as it was. Knows the
agent and how its model is asked; does not know what is told beside the summary.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from teamwright.agent.agent import Agent
from teamwright.agent.compacting.measure import answer_tokens, context_of, tokens_of, tokens_of_all, tokens_of_prefix
from teamwright.agent.compacting.shortening import in_short, with_room
from teamwright.agent.compacting.state import AUTO, MANUAL, Shortened, Wanted, room_of
from teamwright.agent.compacting.words import SHORTENED, directive, summary_blocks
from teamwright.agent.conversation import Conversation
from teamwright.agent.forked import Forked, run_forked_agent
from teamwright.agent.listening import Heard, listen
from teamwright.agent.transcript import USER, without_thoughts
from teamwright.hooks import payload
from teamwright.hooks.book import POST_COMPACT, PRE_COMPACT
from teamwright.models.model import Failure, Refusal
from teamwright.models.servers.ways import ROOM, to_widen
from teamwright.protocol.blocks import encode
from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.events import Compacted, Notice
from teamwright.protocol.usage import UNUSED, Usage
from teamwright.protocol.values import dataclass

WHAT = "compaction"
"""What the model call of a compaction is called in events and books."""

FULL = "context-full"
"""The failure of a request that does not fit."""

GROWTH = 0.05
"""By this share of the window a conversation must have grown before it is tried again by itself."""

SHARES = (0.6, 0.3, 0.1)
"""Of the window, or of the conversation where that is less: what is written down of it in short, tried in this order.

A service may have a far smaller window than we know of: what it refused is the only measure then."""

CHARACTERS_PER_TOKEN = 3
"""Fewer than usual, to be on the safe side."""

TIGHT = 0.6
"""Of what there is room for: what is kept when the service said that all was full, for our count was too low."""

_NOTHING = "nothing was said yet that a summary could stand for"
_CALLS = "one of its calls was cut off and has no result yet: the agent continues with that call first"
_OVER = "the agent has ended"


@dataclass(frozen=True, slots=True)
class Answered:
    """What was heard, the task that it was booked to, and what compacting cost beside it."""

    heard: Heard
    task: str = ""
    beside: Usage = UNUSED


async def answer(agent: Agent) -> Answered:
    """The next answer, of a conversation that is made smaller first where it must be, and once when it is full."""
    agent.catch_up()
    if agent.rounds_left == 0:
        return Answered(*await listen(agent))
    beside = UNUSED
    if agent.compaction.wanted is not None:
        beside += (await _serve(agent, agent.compaction.wanted)).usage
    elif due(agent):
        beside += (await compact(agent, AUTO)).usage
    heard, task = await listen(agent)
    if isinstance(heard, Failure) and heard.slug == FULL:
        made = await compact(agent, AUTO, full=True)
        beside += made.usage
        if made.done:
            heard, task = await listen(agent)
        heard = _why_full(agent, heard, made)
    return Answered(heard, task, beside)


async def compact_now(agent: Agent, keep: str = "") -> Shortened:
    """Compact by hand: at once when the agent is at rest, before its next model call when it is in a turn.

    `keep` says in words what the summary must not lose. Nothing is raised: the result says what was in the way.
    """
    compaction = agent.compaction
    wanted = compaction.wanted
    if wanted is None:
        wanted = compaction.wanted = Wanted(keep, asyncio.get_running_loop().create_future())
    rests = asyncio.ensure_future(compaction.turn.acquire())
    try:
        await asyncio.wait({rests, wanted.done}, return_when=asyncio.FIRST_COMPLETED)
        if not wanted.done.done():
            await _serve(agent, wanted)
    finally:
        if not wanted.done.done() and compaction.wanted is wanted:
            compaction.wanted = None  # the agent that asked no longer waits
        rests.cancel()
        if (await asyncio.gather(rests, return_exceptions=True))[0] is True:
            compaction.turn.release()
    return wanted.done.result()


def due(agent: Agent) -> bool:
    """Whether the conversation has passed its share of the window, and folding it would give some of it back.

    A service that answered more than the window that we know of has a larger one: it says itself when it is full.
    """
    compaction, conversation, card = agent.compaction, agent.conversation, agent.model.card
    limit = compaction.limit(card, answer_tokens(conversation.prefix))
    context = context_of(conversation, compaction)
    if limit is None or context < max(limit, compaction.again_at) or _in_the_way(conversation):
        return False
    if conversation.reported[1] > card.context_tokens:
        return False
    left = tokens_of_prefix(conversation.prefix) + tokens_of_all(conversation.items[fold_at(conversation) :])
    return context - left >= card.context_tokens * GROWTH  # else what was told last is most of it, and stays


async def compact(agent: Agent, trigger: str, keep: str = "", *, full: bool = False) -> Shortened:
    """Fold the conversation up to its last complete answer; only from within its turn, or while it rests.

    `full`: the service said that it does not fit. Cancelling leaves it as it was. Raises nothing else.
    """
    conversation, name = agent.conversation, agent.name
    before = context_of(conversation, agent.compaction)
    if why := _in_the_way(conversation):
        if trigger == MANUAL:
            agent.emit(Compacted(member=name, state="failed", trigger=trigger, before=before, detail=why))
        return Shortened(False, before, before, why)
    agent.emit(Compacted(member=name, state="begun", trigger=trigger, before=before))
    try:
        made = await _compact(agent, trigger, keep, before, full=full)
    except BaseException:
        agent.emit(Compacted(member=name, state="failed", trigger=trigger, before=before, detail="it was cut short"))
        raise
    agent.compaction.again_at = made.after + int(agent.model.card.context_tokens * GROWTH)
    state = "done" if made.done else "failed"
    agent.emit(Compacted(member=name, state=state, trigger=trigger, before=before, after=made.after, detail=made.why))
    _tell_little(agent)
    return made


def _tell_little(agent: Agent) -> None:
    """Once: a window so small that the conversation will be compacted again and again, and what widens it."""
    card = agent.model.card
    if card.context_tokens < ROOM // 2 and not agent.compaction.told_little:
        agent.compaction.told_little = True
        widen = to_widen(card.provider, card.wire, card.context_tokens // 2)
        text = f"a window of {card.context_tokens:,} tokens is little, and much is forgotten: {widen}"
        agent.emit(Notice(member=agent.name, text=text, level="warning"))


async def _compact(agent: Agent, trigger: str, keep: str, before: int, *, full: bool) -> Shortened:
    compaction, upto = agent.compaction, fold_at(agent.conversation)
    said, usage = Forked(), Usage()
    try:
        await compaction.beside.flagged()
        await agent.hooks.fire(PRE_COMPACT, lambda: payload.pre_compact(trigger, keep), trigger)
        said, usage = await _summary(agent, agent.conversation.items[:upto], keep, full=full)
        if not said.text:
            return _unsaid(said, before, usage)
        restated = await compaction.beside.restated()
        beside = Beside(restated, await agent.hooks.began_anew(agent.model.card.name))
        after = _fold(agent, upto, said.text, beside, {"trigger": trigger, "before": before}, tight=full)
    except TeamwrightError as problem:
        return Shortened(False, before, before, problem.what, usage=usage)
    await agent.hooks.fire(POST_COMPACT, lambda: payload.post_compact(trigger, said.text), trigger)
    return Shortened(True, before, after, summary=said.text, usage=usage)


async def _summary(agent: Agent, folded: Sequence[bytes], keep: str, *, full: bool) -> tuple[Forked, Usage]:
    """The summary in the agent's own words; of a conversation that does not fit any more, from a short form of it."""
    window, usage = max(agent.model.card.context_tokens, agent.conversation.reported[1] + 1), Usage()
    if not full and context_of(agent.conversation, agent.compaction) < window:
        said = await run_forked_agent(agent, directive(keep), WHAT)
        usage += said.usage
        if not _worth_another(said):
            return said, usage
    said, most = Forked(), min(window, tokens_of_all(agent.conversation.items))
    for share in SHARES:
        short = in_short(folded, int(most * share) * CHARACTERS_PER_TOKEN)
        words = SHORTENED.format(conversation=agent.tags.conversation(short)) + directive(keep)
        said = await run_forked_agent(agent, words, WHAT, ())
        usage += said.usage
        if not _worth_another(said):
            break
    return said, usage


def _worth_another(said: Forked) -> bool:
    """Whether a shorter form may go better: it was too long, or nothing came but calls."""
    if said.failure is not None:
        return said.failure.slug == FULL
    return said.refusal is None and not said.text


def _unsaid(said: Forked, before: int, usage: Usage) -> Shortened:
    """There is no summary, and nothing was changed."""
    if said.refusal is not None:
        why = said.refusal.why or f"the cap on {said.refusal.limit} is spent"
        return Shortened(False, before, before, why, limit=said.refusal.limit, usage=usage)
    why = said.failure.sentence if said.failure is not None else "the model wrote no summary"
    return Shortened(False, before, before, why, failure=said.failure, usage=usage)


@dataclass(frozen=True, slots=True)
class Beside:
    """What is told beside a summary: how things stand, and what hooks add."""

    restated: str
    contexts: Sequence[str] = ()


def _fold(agent: Agent, upto: int, summary: str, beside: Beside, about: dict[str, object], *, tight: bool) -> int:
    """Go on from the summary; what was told while it was written stays too. Returns the tokens that there are now.

    Nothing waits in here: no line can come between what is kept and the line that says so.
    """
    compaction, conversation, card = agent.compaction, agent.conversation, agent.model.card
    prefix = conversation.prefix if compaction.fresh is None else compaction.fresh()
    if prefix.digest == conversation.prefix.digest:
        prefix = conversation.prefix  # equality is identity
    told = summary_blocks(agent.tags, summary, beside.restated, agent.remind(True))
    told += agent.tags.hook_notes(beside.contexts)
    first = encode({"role": "user", "content": told})
    kept = [without_thoughts(item) for item in conversation.items[upto:]]
    room = room_of(card, answer_tokens(prefix)) - tokens_of_prefix(prefix) - tokens_of(first)
    kept = with_room(kept, int(room * TIGHT) if tight else room)
    conversation.fold((first, *kept), upto, about, prefix)
    compaction.measured = (0, 0)
    if compaction.forgotten is not None:
        compaction.forgotten()
    return context_of(conversation, compaction)


def fold_at(conversation: Conversation) -> int:
    """Where the last complete answer stands: all before it can be folded."""
    items = conversation.items
    return next((at for at in range(len(items) - 1, -1, -1) if not items[at].startswith(USER)), 0)


def _in_the_way(conversation: Conversation) -> str:
    """Why nothing can be folded now; empty when something can."""
    if conversation.closed:
        return _OVER
    if conversation.unanswered() or conversation.unbegun:
        return _CALLS
    at = fold_at(conversation)
    paused = conversation.owes_round and at == len(conversation.items) - 1
    return _NOTHING if paused or at <= int(conversation.compacted) else ""


async def _serve(agent: Agent, wanted: Wanted) -> Shortened:
    """Do what was asked for by hand, and tell whoever asked. Cut short, it stays asked for."""
    made = await compact(agent, MANUAL, wanted.keep)
    agent.compaction.wanted = None
    if not wanted.done.done():
        wanted.done.set_result(made)
    return made


def _why_full(agent: Agent, heard: Heard, made: Shortened) -> Heard:
    """What is said of a conversation that was full: what came then, or why it could not be made smaller."""
    if not made.done and made.limit:
        return Refusal(made.limit, made.why)
    if not made.done and made.failure is not None and made.failure.slug != FULL:
        return made.failure  # a service that cannot be asked now may be asked later
    if not isinstance(heard, Failure) or heard.slug != FULL:
        return heard
    name = agent.model.card.name
    tokens = f"{context_of(agent.conversation, agent.compaction):,} tokens by our count"
    if made.done or made.why == _NOTHING:
        even = ", even after compaction" if agent.conversation.compacted else ""
        what = f"the last message does not fit into the window of {name}{even}: {tokens}"
    else:
        what = f"the conversation no longer fits into the window of {name} and could not be compacted: {made.why}"
    do = ("put what is long into a file and name the file", "use a model with a larger window")
    return replace(heard, what=what, do=do)
