"""Keep the text and the usage of an answer that was cut short, and give the model a note.

A turn is cancelled by a person, a deadline or the end of the session; its text was shown and is paid for. Knows the
agent and what had come; does not know who cancelled.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from teamwright.agent.agent import Agent
from teamwright.agent.compacting.measure import BYTES_PER_TOKEN, tokens_of_all, tokens_of_prefix
from teamwright.agent.conversation import Told
from teamwright.models.ends import INTERRUPTED
from teamwright.models.model import Counted, Failure, Part, Reply, Request, Retrying, TextPart, ThinkingPart, price
from teamwright.protocol.blocks import text_block
from teamwright.protocol.errors import StorageError
from teamwright.protocol.usage import UNUSED, Usage

NOTE = "Your answer above was interrupted before it was complete: the rest never came, and no tool call of it was run."
NOTE_FAILED = "Your answer above broke off, because its service failed: the rest never came, and no tool call was run."
NOTE_NO_WORDS = "Your answer was interrupted before a word of it came."


class SoFar:
    """The text and usage that one answer has had so far."""

    __slots__ = ("_begun", "_broken", "_lost", "_text", "_thought", "_usage")

    def __init__(self) -> None:
        self._lost = UNUSED
        self._broken = ""
        self._forget()

    def _forget(self) -> None:
        self._begun, self._usage = False, UNUSED
        self._text: list[str] = []
        self._thought = 0

    def take(self, part: Part) -> None:
        """Note a part. A try that breaks leaves what it used, and no words."""
        match part:
            case TextPart():
                self._begun = True
                self._text.append(part.text)
            case Counted():
                self._begun, self._usage = True, part.usage
            case ThinkingPart():
                self._begun = True
                self._thought += len(part.text)
            case Retrying():
                self._lost += self._usage
                self._broken = "".join(self._text) or self._broken
                self._forget()
            case _:
                pass

    def reply(self, agent: Agent, request: Request) -> Reply | None:
        """The answer as far as it came, at what the service had counted, else by estimate. None: nothing came."""
        card, text, used = agent.model.card, "".join(self._text), self._usage
        lost = price(card, self._lost) if self._lost.tokens else UNUSED
        if not self._begun and not lost.requests:
            return None
        written = (len(text) + self._thought) // BYTES_PER_TOKEN + 1 if text or self._thought else 0
        out = max(used.output_tokens, written)
        estimated = self._begun and (out > used.output_tokens or not used.prompt_tokens)
        if self._begun and not used.prompt_tokens:
            prompt = tokens_of_prefix(request.prefix) + tokens_of_all(request.items)
            used = Usage(prompt, out, requests=max(1, used.requests))
        elif self._begun:
            used = replace(used, output_tokens=out)
        content = agent.tags.masked([text_block(text)]) if text.strip() else []
        return Reply(content, INTERRUPTED, price(card, used), card.wire, lost=lost, estimated=estimated)

    def failed(self, agent: Agent, failure: Failure) -> Failure:
        """The failure, with the words that the last try of which any came had said; what they cost is in it already."""
        words = "".join(self._text) or self._broken
        return replace(failure, partial=agent.tags.masked([text_block(words)]) if words.strip() else [])


def keep_failed(agent: Agent, failure: Failure) -> None:
    """Store the words of an answer that failed after all tries, and tell the model of it.

    Raises nothing when the line cannot be stored: the event of the failure is emitted anyway.
    """
    if failure.partial and not agent.conversation.closed:
        with suppress(StorageError):
            _store(agent, Reply(failure.partial, INTERRUPTED, UNUSED, agent.model.card.wire), NOTE_FAILED)


def keep_cut_short(agent: Agent, request: Request, so_far: SoFar) -> None:
    """Store and book what had come of an answer that is cut short now, and tell the model of it.

    Raises nothing when the disk takes no line: the cancellation continues.
    """
    cut = so_far.reply(agent, request)
    if cut is None:
        return
    task = agent.meter.settle(cut)
    agent.lost_tries(cut, task)
    if not cut.usage.requests:
        return
    if not request.aside:
        if agent.rounds_left is not None:
            agent.rounds_left -= 1
        if not agent.conversation.closed:
            with suppress(StorageError):
                _store(agent, cut)
    agent.ended_round(cut, 0, task, aside=INTERRUPTED if request.aside else "")


def _store(agent: Agent, cut: Reply, note_of_words: str = NOTE) -> None:
    if cut.content:
        agent.conversation.reply(cut)
        agent.say("assistant", cut.content, cut)
    note = agent.tags.note(note_of_words if cut.content else NOTE_NO_WORDS)
    agent.conversation.tell(Told((note,)))
    agent.say("user", (note,))
