"""The scripted model: answers from a script file like a model, with real tool calls and templates for text.

Part of the product: the demo and `--model scripted:FILE` use it. It receives the same requests as any other model.
Depends on the file format and the player.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from pathlib import Path
from typing import Any

from teamwright.models.effort import LEVELS
from teamwright.models.model import Failure, ModelCard, Part, Reply, Request, TextPart
from teamwright.models.scripted.script_file import ScriptFile, read_script, script_agent_name
from teamwright.models.scripted.script_player import CallNumberLookup, ScriptPlayer, ScriptPlayError
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.messages import Block, text_block
from teamwright.protocol.usage import Usage

_USAGE = Usage(requests=1)
"""The usage of a scripted answer: no tokens, no cost."""


def no_call_numbers(call_id: str) -> str:
    """Return no number, for scripts without a runtime that numbers calls."""
    return ""


class Script:
    """A validated script. `pace_s` is the pause before each reply, in seconds; set it to override."""

    def __init__(self, file: ScriptFile, where: str, pace_s: float = 0.0) -> None:
        self.file = file
        self.where = where
        self.pace_s = pace_s
        name = f"scripted:{where}"
        free: dict[str, Any] = {"usd_in": 0.0, "usd_out": 0.0, "images": False, "caching": False}
        self.card = ModelCard(name, name, "scripted", efforts=LEVELS, **free)

    @classmethod
    def load(cls, path: Path) -> Script:
        """Return the script in a file. Raises CannotStart (`bad-script`) with the file and the place of the error."""
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise _unreadable(path, "it is not UTF-8") from None
        except OSError as error:
            raise _unreadable(path, error.strerror or str(error)) from None
        return cls.parse(text, str(path))

    @classmethod
    def parse(cls, text: str, where: str) -> Script:
        """Return the script in a TOML text; `where` names it in errors. Raises CannotStart (`bad-script`)."""
        file = read_script(text, where)
        return cls(file, where, file.pace_ms / 1000)

    @property
    def name(self) -> str:
        """The script's own name."""
        return self.file.name

    @property
    def required_names(self) -> tuple[str, ...]:
        """The names that must be supplied from outside."""
        return self.file.required_names

    def model(
        self, agent: str, given: Mapping[str, str] | None = None, receipts: CallNumberLookup = no_call_numbers
    ) -> ScriptedAgent:
        """Return the model of one agent's conversation.

        `given` supplies the names of `[script] given`; `receipts` returns the runtime's number of a call (`c7`). Raises
        CannotStart (`bad-script`) when a name is not supplied.
        """
        supplied = dict(given or {})
        lacking = [name for name in self.file.required_names if name not in supplied]
        if lacking:
            raise CannotStart(
                "bad-script",
                f"the script needs {', '.join(lacking)} from outside",
                looked_at=[("file", self.where)],
                do=["name another model: --model MODEL"],
                note="nothing was started",
            )
        return ScriptedAgent(
            self,
            ScriptPlayer(script_agent_name(agent), self.file.part(agent), supplied, receipts, self.file.repeat_pattern),
        )


class ScriptedAgent:
    """The model of one conversation. Not to be shared: it remembers its answers."""

    def __init__(self, script: Script, player: ScriptPlayer) -> None:
        self._script = script
        self._player = player

    @property
    def card(self) -> ModelCard:
        """A card without costs, named after the script."""
        return self._script.card

    async def aclose(self) -> None:
        """Do nothing: nothing is open."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Yield the next answer of the script; a Failure (`bad-script`) when no turn matches or a name has no text."""
        if self._script.pace_s > 0:
            await asyncio.sleep(self._script.pace_s)
        if request.aside:
            block = text_block(f"[{len(request.items) - 1} messages came before; a script writes no summary of them.]")
            yield Reply([block], "end_turn", _USAGE, self.card.wire)
            return
        try:
            content = self._player.answer(request.items)
        except ScriptPlayError as error:
            yield Failure("bad-script", str(error), looked_at=(("file", self._script.where),))
            return
        for text in text_pieces(content):
            yield TextPart(text)
        calls = bool(content) and content[-1]["type"] == "tool_use"
        yield Reply(content, "tool_use" if calls else "end_turn", _USAGE, self.card.wire)


def text_pieces(content: list[Block]) -> Iterator[str]:
    """Yield the text of an answer in at most four pieces a block, cut at blanks, as a stream would deliver it."""
    for block in content:
        if block["type"] == "text":
            yield from _pieces(block["text"])


def _pieces(text: str) -> Iterator[str]:
    size = max(24, -(-len(text) // 4))
    at = 0
    while at < len(text):
        last = at + size >= len(text)
        end = len(text) if last else (text.rfind(" ", at + size // 2, at + size) + 1) or at + size
        yield text[at:end]
        at = end


def _unreadable(path: Path, why: str) -> CannotStart:
    return CannotStart(
        "bad-script",
        "the script cannot be read",
        looked_at=[("file", str(path)), ("why", why)],
        do=["teamwright -p … --model scripted:FILE   (FILE: docs/reference/script-format.md)"],
        note="nothing was started",
    )
