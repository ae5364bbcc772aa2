"""The scripted model: answers from a script file like a model, with real tool calls and templates for text.

Part of the product: the demo and `--model scripted:FILE` use it. It receives the same requests as any other model. The
state of a `ScriptPlayer` can be rebuilt from the conversation, so a resumed one continues where it was. It decodes only
new messages.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct, field

from teamwright.models.effort import LEVELS
from teamwright.models.model import Failure, ModelCard, Part, Reply, Request, TextPart
from teamwright.models.scripted.script_file import (
    ScriptCall,
    ScriptFile,
    ScriptPart,
    ScriptTurn,
    TurnConditions,
    fill_deep,
    read_script,
    script_agent_name,
)
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.messages import Block, message_text, text_block, tool_calls
from teamwright.protocol.runtime_tags import (
    MESSAGE,
    MESSAGE_PATTERN,
    NOTIFICATION,
    PEER_NOTE,
    REMINDER,
    parse_sender,
    unescape_tags,
)
from teamwright.protocol.usage import Usage

_USAGE = Usage(requests=1)
"""The usage of a scripted answer: no tokens, no cost."""

CallNumberLookup: TypeAlias = Callable[[str], str]
"""A function that returns the runtime's number of a call (`c7`) for a tool_use_id; empty when it has none."""


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
        name = script_agent_name(agent)
        part = self.file.part(agent)
        return ScriptedAgent(self, ScriptPlayer(name, part, supplied, receipts, self.file.repeat_pattern))


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
            text = block["text"]
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


MAX_REPEATS = 10
"""The number of times that a turn is played again after an interruption of its call."""

_ANSWER = b'{"role":"assistant"'
_CALL_ID = re.compile(r"call_(\d+)_(\d+)_[0-9a-f]{8}_\d+")


class ReceivedText(Struct, frozen=True):
    """A text that an agent received. `sender` is a name, `user`, or `system` for notices of the runtime."""

    sender: str
    text: str


class ReceivedResult(Struct, frozen=True):
    """The result of a tool call, as text."""

    call_id: str
    text: str
    is_error: bool


_NO_TEXT = ReceivedText("", "")
"""The value for conditions that are true and use none of the received texts."""


class ScriptPlayer(Struct):
    """A player of one part in one conversation. `texts` starts with the values from outside."""

    agent: str
    part: ScriptPart
    texts: dict[str, str]
    receipts: CallNumberLookup
    repeat_pattern: re.Pattern[str] | None = None
    _turns: Sequence[ScriptTurn] = ()
    _seen: int = 0
    _call_count: int = 0
    _run_id: str = field(default_factory=lambda: secrets.token_hex(4))
    _open: _UsedTurn | None = None
    _last: list[Block] | None = None
    _notes: list[ReceivedText] = field(default_factory=list[ReceivedText])
    _outcomes: list[ReceivedResult] = field(default_factory=list[ReceivedResult])
    _used: dict[int, ReceivedText] = field(default_factory=dict[int, ReceivedText])
    _repeated: dict[int, int] = field(default_factory=dict[int, int])
    _calls: dict[str, tuple[int, ScriptCall]] = field(default_factory=dict[str, tuple[int, ScriptCall]])
    _named: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self._turns = self.part.turns + self.part.otherwise

    def answer(self, items: Sequence[bytes]) -> list[Block]:
        """Return the content of the answer to these messages. Raises ScriptPlayError.

        The same messages get the same answer: a reply that was lost is returned again.
        """
        if self._last is None or len(items) != self._seen:
            self._read_new(items)
            self._last = self._play()
        return list(self._last)

    # ── taking in ──

    def _read_new(self, items: Sequence[bytes]) -> None:
        """Decode the new messages. Recent answers of this player are recognised; those of an earlier process are
        replayed."""
        if len(items) < self._seen:  # the history was compacted: only its end can be new
            self._seen = max(0, len(items) - 1)
            self._open = None
        for raw in items[self._seen :]:
            if self._open is not None and raw.startswith(_ANSWER):
                self._confirm_answer([])  # this player's last answer: it contains nothing new
                continue
            item = cast("dict[str, Any]", json.loads(raw.decode("utf-8", "replace")))
            if item["role"] == "assistant":
                self._confirm_answer(item["content"])
            else:
                self._undo()
                self._listen(item["content"])
        self._seen = len(items)
        self._undo()

    def _confirm_answer(self, content: str | list[Block]) -> None:
        """Process an answer in the history: this player's last one, or one of an earlier process."""
        if self._open is None:
            self._replay([] if isinstance(content, str) else content)
        self._open = self._last = None
        self._outcomes = []

    def _replay(self, content: list[Block]) -> None:
        """Mark the turn of an answer as used: by the ids of its calls, or by choosing it again."""
        calls = tool_calls(content)
        marks = [(call.id, mark) for call in calls if (mark := _CALL_ID.fullmatch(call.id))]
        if not calls:
            chosen = self._choose()
            if chosen is not None:
                self._use(*chosen)
        elif marks and int(marks[0][1][1]) < len(self._turns):
            number = int(marks[0][1][1])
            self._use(number, self._fits(self._turns[number].when) or _NO_TEXT)
            entries = dict(enumerate(self._turns[number].calls))
            for call_id, mark in marks:
                if int(mark[2]) in entries:
                    self._register(call_id, number, entries[int(mark[2])])

    def _undo(self) -> None:
        """Undo the use of a turn whose answer never came into the history."""
        if self._open is None:
            return
        self._used.pop(self._open.number, None)
        self._put_back(self._open.note)
        self._notes += self._open.discarded
        self._open = self._last = None

    def _put_back(self, note: ReceivedText) -> None:
        if note is not _NO_TEXT:
            self._notes.insert(0, note)

    def _listen(self, content: str | list[Block]) -> None:
        notes, outcomes = parse_user_message(content)
        for note in notes:
            self._notes.append(note)
            self._capture(self.part.hear, note.text)
        for outcome in outcomes:
            self._outcomes.append(outcome)
            self._result(outcome)

    def _result(self, outcome: ReceivedResult) -> None:
        """Capture from a result of this player's call; an interrupted call makes its turn usable again."""
        number, call = self._calls.get(outcome.call_id, (-1, None))
        if call is None:
            return
        if outcome.is_error and self.repeat_pattern is not None and self.repeat_pattern.search(outcome.text):
            self._repeated[number] = self._repeated.get(number, 0) + 1
            if self._repeated[number] <= MAX_REPEATS:
                self._put_back(self._used.pop(number, _NO_TEXT))
                return
        if not outcome.is_error:
            self._capture(call.capture, outcome.text)
        for name, text in call.default.items():
            self.texts.setdefault(name, text)

    def _capture(self, patterns: Sequence[re.Pattern[str]], text: str) -> None:
        for pattern in patterns:
            found = pattern.search(text)
            if found is not None:
                self.texts.update({name: value for name, value in found.groupdict().items() if value is not None})

    # ── choosing ──

    def _choose(self) -> tuple[int, ReceivedText] | None:
        """Return the first unused turn whose conditions are true, with the text that it uses."""
        for number, turn in enumerate(self._turns):
            if number not in self._used or turn.repeat:
                note = self._fits(turn.when)
                if note is not None:
                    return number, note
        return None

    def _fits(self, when: TurnConditions) -> ReceivedText | None:
        """Return the text that the conditions use; None when they are false."""
        if when.have and not all(self.texts.get(name) for name in when.have):
            return None
        if when.missing and any(self.texts.get(name) for name in when.missing):
            return None
        if (when.tool or when.result) and not any(self._matches_result(when, outcome) for outcome in self._outcomes):
            return None
        if not (when.text or when.sender or when.task):
            return _NO_TEXT
        return next((note for note in self._notes if _matches_text(when, note)), None)

    def _matches_result(self, when: TurnConditions, outcome: ReceivedResult) -> bool:
        _, call = self._calls.get(outcome.call_id, (-1, None))
        if when.tool is not None and (call is None or call.tool != when.tool):
            return False
        return when.result is None or when.result.search(outcome.text) is not None

    def _use(self, number: int, note: ReceivedText) -> _UsedTurn:
        """Mark a turn as used and remove its text. An answer without calls ends the turn: all received texts are
        discarded."""
        turn = self._turns[number]
        self._used[number] = note
        for one in self._notes if note is _NO_TEXT else [note]:
            self._capture(turn.capture_text, one.text)
        if note is not _NO_TEXT:
            self._notes.remove(note)
        discarded: list[ReceivedText] = []
        if not turn.calls:
            discarded = self._notes
            self._notes = []
        return _UsedTurn(number, note, discarded)

    # ── playing ──

    def _play(self) -> list[Block]:
        chosen = self._choose()
        if chosen is None:
            raise ScriptPlayError(f'the script has no turn for "{self.agent}" here')
        turn = self._turns[chosen[0]]
        self._open = self._use(*chosen)
        try:
            return self._content(turn)
        except KeyError as lacking:
            self._undo()
            raise ScriptPlayError(f'{turn.label} needs "{lacking.args[0]}", which nothing has given yet') from None

    def _content(self, turn: ScriptTurn) -> list[Block]:
        """Return the blocks of a turn, newly created. Raises KeyError with a name that has no text."""
        content: list[Block] = []
        if turn.say is not None:
            text = turn.say.fill(self._look)
            content += [text_block(text)] if text.strip() else []
        number = self._open.number if self._open else 0
        for entry, call in enumerate(turn.calls):
            if call.have and not all(self.texts.get(name) for name in call.have):
                continue
            self._call_count += 1
            call_id = f"call_{number}_{entry}_{self._run_id}_{self._call_count}"
            call_input: dict[str, Any] = fill_deep(call.input, self._look)
            content.append({"type": "tool_use", "id": call_id, "name": call.tool, "input": call_input})
            self._register(call_id, number, call)
        if not content:
            self._undo()
            raise ScriptPlayError(f"{turn.label} comes to nothing: all that it has is left out")
        return content

    def _register(self, call_id: str, number: int, call: ScriptCall) -> None:
        self._calls[call_id] = (number, call)
        if call.name:
            self._named[call.name] = call_id

    def _look(self, name: str) -> str:
        if not name.startswith("call."):
            return self.texts[name]
        call_id = self._named.get(name.removeprefix("call."))
        if call_id is None:
            raise KeyError(name)
        return self.receipts(call_id) or "?"


class ScriptPlayError(Exception):
    """No turn matches, or a template needs a name without a value; the text says which."""


class _UsedTurn(Struct):
    """A turn that was played: the text that it used, and the texts that its end of the turn discarded."""

    number: int
    note: ReceivedText
    discarded: list[ReceivedText]


def _matches_text(when: TurnConditions, note: ReceivedText) -> bool:
    if when.task is not None and (note.sender != TASK_LIST or not when.task.search(note.text)):
        return False
    if when.sender is not None and not when.sender.search(note.sender):
        return False
    return when.text is None or when.text.search(note.text) is not None


TASK_LIST = "task-list"
"""The sender of claimed tasks."""

_ENVELOPE = re.compile(rf"(?:{re.escape(PEER_NOTE)}\n)?{MESSAGE_PATTERN}", re.DOTALL)


def parse_user_message(content: str | Iterable[Block]) -> tuple[list[ReceivedText], list[ReceivedResult]]:
    """Return the texts and results of one user message, in order."""
    if isinstance(content, str):
        return _received_texts(content), []
    notes: list[ReceivedText] = []
    outcomes: list[ReceivedResult] = []
    for block in content:
        kind = block.get("type")
        if kind == "text":
            notes += _received_texts(block["text"])
        elif kind == "tool_result":
            body = block.get("content") or ""
            text = body if isinstance(body, str) else message_text(body)
            outcomes.append(ReceivedResult(block["tool_use_id"], text, bool(block.get("is_error"))))
    return notes, outcomes


def _received_texts(text: str) -> list[ReceivedText]:
    if f"<{MESSAGE} " not in text:
        return _text_without_envelope(text)
    notes: list[ReceivedText] = []
    at = 0
    for found in _ENVELOPE.finditer(text):
        notes += _text_without_envelope(text[at : found.start()])
        notes.append(ReceivedText(parse_sender(found[1]), unescape_tags(found[2])))
        at = found.end()
    return notes + _text_without_envelope(text[at:])


def _text_without_envelope(text: str) -> list[ReceivedText]:
    text = text.strip()
    if not text:
        return []
    return [ReceivedText("system" if text.startswith((f"<{REMINDER}", f"<{NOTIFICATION}")) else "user", text)]
