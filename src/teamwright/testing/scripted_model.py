"""A model for tests, written in Python: it returns scripted answers and records its requests.

`ScriptedModel("ok")` gives every agent the same answer; a list is a sequence of answers; a mapping gives each agent (by
`Request.agent_name`) a separate list, or one text for all its answers; a function computes the answer from the request.
It needs no file, adds no delay and costs nothing.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from msgspec import Struct, field
from msgspec.structs import replace

from teamwright.models.model import Failure, ModelCard, Part, Reply, Request, TextPart
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.messages import Block, message_text, text_block
from teamwright.protocol.usage import Usage


class Say(Struct, frozen=True):
    """A text in an answer."""

    text: str


class Call(Struct, frozen=True):
    """A tool call in an answer."""

    tool: str
    input: Mapping[str, Any] = field(default_factory=dict[str, Any])


Piece: TypeAlias = str | Say | Call | tuple[str, Mapping[str, Any]]
"""A part of one answer; a pair is a tool call: `("Bash", {"command": "ls"})`."""

ScriptedAnswer: TypeAlias = Piece | Sequence[Piece] | Failure
"""One answer: a piece, several pieces, or a failure of the service."""

ScriptedAnswers: TypeAlias = (
    Sequence[ScriptedAnswer] | Mapping[str, str | Sequence[ScriptedAnswer]] | Callable[[Request], ScriptedAnswer]
)
"""The script of a model, when it is not one text for all agents."""


class ScriptedModel:
    """A model whose answers a test wrote. `requests` contains copies of its requests, oldest first.

    After the last answer of a list, the answer is a Failure that says so. It reports no tokens, so caps on tokens and
    money are tested with LoopbackModel, or with a Model of your own.
    """

    def __init__(self, answers: str | ScriptedAnswers, *, card: ModelCard | None = None) -> None:
        self._answers = answers
        self._card = card or ModelCard("scripted", "scripted", "scripted", usd_in=0.0, usd_out=0.0)
        self._next_numbers: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self.requests: list[Request] = []

    @property
    def card(self) -> ModelCard:
        """The model card of the test, else one with a price of zero."""
        return self._card

    async def aclose(self) -> None:
        """Do nothing: no resource is open."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Yield the parts of the next answer."""
        self.requests.append(replace(request, items=tuple(request.items)))
        answer = self._next(request)
        if isinstance(answer, Failure):
            yield answer
            return
        content = self._content(answer)
        for block in content:
            if block["type"] == "text":
                yield TextPart(block["text"])
        calls = any(block["type"] == "tool_use" for block in content)
        yield Reply(content, "tool_use" if calls else "end_turn", Usage(requests=1), self._card.wire)

    def request_text(self, number: int = -1) -> str:
        """Return the text of the newest message of a recorded request: texts and tool results."""
        content = cast("str | list[Block]", json.loads(self.requests[number].items[-1])["content"])
        if isinstance(content, str):
            return content
        return "\n".join(
            message_text(block["content"]) if block["type"] == "tool_result" else message_text([block])
            for block in content
        )

    def _next(self, request: Request) -> ScriptedAnswer:
        if isinstance(self._answers, str):
            return self._answers
        if callable(self._answers):
            return self._answers(request)
        if not isinstance(self._answers, Mapping):
            return self._answer_from(self._answers, "")
        agent = LEAD if request.agent_name == LEAD_ALIAS else request.agent_name
        parts = {LEAD if name == LEAD_ALIAS else name: part for name, part in self._answers.items()}
        part = parts.get(agent, ())
        return part if isinstance(part, str) else self._answer_from(part, agent)

    def _answer_from(self, answers: Sequence[ScriptedAnswer], agent: str) -> ScriptedAnswer:
        number = self._next_numbers.get(agent, 0)
        self._next_numbers[agent] = number + 1
        if number < len(answers):
            return answers[number]
        whose = f' of "{agent}"' if agent else ""
        return Failure("bad-script", f"the {len(answers)} answers{whose} are used up")

    def _content(self, answer: Piece | Sequence[Piece]) -> list[Block]:
        return [self._block(piece) for piece in _pieces(answer)]

    def _block(self, piece: Piece) -> Block:
        match piece:
            case str():
                return text_block(piece)
            case Say():
                return text_block(piece.text)
            case Call():
                tool, arguments = piece.tool, piece.input
            case _:
                tool, arguments = piece
        return {"type": "tool_use", "id": f"call_{next(self._numbers)}", "name": tool, "input": dict(arguments)}


def _pieces(answer: Piece | Sequence[Piece]) -> Sequence[Piece]:
    """Return the pieces of an answer. A pair of a name and an object is one tool call, not two pieces."""
    if isinstance(answer, str | Say | Call):
        return [answer]
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping):
        return [cast("tuple[str, Mapping[str, Any]]", answer)]
    return cast("Sequence[Piece]", answer)
