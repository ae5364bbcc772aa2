"""The player of one part: what was heard and captured in a conversation, and which turn answers it.

Everything it remembers can be rebuilt from the conversation, so a resumed one goes on where it was. It decodes
only what is new. Below: the file format and what was heard. It knows no request, no stream and no pace.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, TypeAlias, cast

from teamwright.models.scripted.heard import TASK_LIST, Note, Outcome, heard
from teamwright.models.scripted.script_file import Call, Part, Turn, When
from teamwright.models.scripted.template import fill_deep
from teamwright.protocol.blocks import Block, text_block, tool_calls
from teamwright.protocol.values import dataclass

Receipts: TypeAlias = Callable[[str], str]
"""The runtime's number of a call (`c7`) for a tool_use_id; empty when it has none."""

AGAIN_AT_MOST = 10
"""How often a turn whose call was interrupted is played anew."""

_ANSWER = b'{"role":"assistant"'
_CALL_ID = re.compile(r"call_(\d+)_(\d+)_[0-9a-f]{8}_\d+")
_NO_TEXT = Note("", "")
"""Stands for: the conditions hold and take none of the texts that were heard."""


class CannotPlay(Exception):
    """No turn fits, or a template needs a name that nothing has given yet; the text says which."""


@dataclass(slots=True)
class _Used:
    """A turn that was chosen: the text it took, and what its end of the turn swept away."""

    number: int
    note: Note
    swept: list[Note]


@dataclass(slots=True)
class Player:
    """Plays one part in one conversation. `texts` starts with what is given from outside."""

    agent: str
    part: Part
    texts: dict[str, str]
    receipts: Receipts
    again: re.Pattern[str] | None = None
    _turns: Sequence[Turn] = ()
    _seen: int = 0
    _made: int = 0
    _life: str = field(default_factory=lambda: secrets.token_hex(4))
    _open: _Used | None = None
    _last: list[Block] | None = None
    _notes: list[Note] = field(default_factory=list[Note])
    _outcomes: list[Outcome] = field(default_factory=list[Outcome])
    _used: dict[int, Note] = field(default_factory=dict[int, Note])
    _repeated: dict[int, int] = field(default_factory=dict[int, int])
    _calls: dict[str, tuple[int, Call]] = field(default_factory=dict[str, tuple[int, Call]])
    _named: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self._turns = self.part.turns + self.part.otherwise

    def answer(self, items: Sequence[bytes]) -> list[Block]:
        """The content of the answer to these messages. Raises CannotPlay.

        The same messages get the same answer: a reply that was lost on the way is given once more.
        """
        if self._last is None or len(items) != self._seen:
            self._take_in(items)
            self._last = self._play()
        return list(self._last)

    # ── taking in ──

    def _take_in(self, items: Sequence[bytes]) -> None:
        """Decode what is new. Our own answers are recognised; those of an earlier life are played over."""
        if len(items) < self._seen:  # the history was compacted: only its end can be new
            self._seen, self._open = max(0, len(items) - 1), None
        for raw in items[self._seen :]:
            if self._open is not None and raw.startswith(_ANSWER):
                self._settle([])  # ours of a moment ago: nothing in it is new
                continue
            item = cast("dict[str, Any]", json.loads(raw.decode("utf-8", "replace")))
            if item["role"] == "assistant":
                self._settle(item["content"])
            else:
                self._undo()
                self._listen(item["content"])
        self._seen = len(items)
        self._undo()

    def _settle(self, content: str | list[Block]) -> None:
        """An answer that the history has: ours of a moment ago, or one of an earlier life."""
        if self._open is None:
            self._play_over([] if isinstance(content, str) else content)
        self._open = self._last = None
        self._outcomes = []

    def _play_over(self, content: list[Block]) -> None:
        """Mark the turn of an answer as used: by the ids of its calls, or by choosing once more."""
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
        """Take back the use of a turn whose answer never came into the history."""
        if self._open is None:
            return
        self._used.pop(self._open.number, None)
        self._put_back(self._open.note)
        self._notes += self._open.swept
        self._open = self._last = None

    def _put_back(self, note: Note) -> None:
        if note is not _NO_TEXT:
            self._notes.insert(0, note)

    def _listen(self, content: str | list[Block]) -> None:
        notes, outcomes = heard(content)
        for note in notes:
            self._notes.append(note)
            self._capture(self.part.hear, note.text)
        for outcome in outcomes:
            self._outcomes.append(outcome)
            self._result(outcome)

    def _result(self, outcome: Outcome) -> None:
        """Capture from a result of ours; an interrupted call frees its turn."""
        number, call = self._calls.get(outcome.call_id, (-1, None))
        if call is None:
            return
        if outcome.is_error and self.again is not None and self.again.search(outcome.text):
            self._repeated[number] = self._repeated.get(number, 0) + 1
            if self._repeated[number] <= AGAIN_AT_MOST:
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

    def _choose(self) -> tuple[int, Note] | None:
        """The first turn whose conditions hold and that is not used up, with the text that it takes."""
        for number, turn in enumerate(self._turns):
            if number not in self._used or turn.repeat:
                note = self._fits(turn.when)
                if note is not None:
                    return number, note
        return None

    def _fits(self, when: When) -> Note | None:
        """The text that the conditions take; None when they do not hold."""
        if when.have and not all(self.texts.get(name) for name in when.have):
            return None
        if when.missing and any(self.texts.get(name) for name in when.missing):
            return None
        if (when.tool or when.result) and not any(self._came(when, outcome) for outcome in self._outcomes):
            return None
        if not (when.text or when.sender or when.task):
            return _NO_TEXT
        return next((note for note in self._notes if _said(when, note)), None)

    def _came(self, when: When, outcome: Outcome) -> bool:
        _, call = self._calls.get(outcome.call_id, (-1, None))
        if when.tool is not None and (call is None or call.tool != when.tool):
            return False
        return when.result is None or when.result.search(outcome.text) is not None

    def _use(self, number: int, note: Note) -> _Used:
        """Mark a turn as used and take its text away. An answer without calls ends the turn: nothing heard stays."""
        turn = self._turns[number]
        self._used[number] = note
        for one in self._notes if note is _NO_TEXT else [note]:
            self._capture(turn.capture_text, one.text)
        if note is not _NO_TEXT:
            self._notes.remove(note)
        swept: list[Note] = []
        if not turn.calls:
            swept, self._notes = self._notes, swept
        return _Used(number, note, swept)

    # ── playing ──

    def _play(self) -> list[Block]:
        chosen = self._choose()
        if chosen is None:
            raise CannotPlay(f'the script has no turn for "{self.agent}" here')
        turn = self._turns[chosen[0]]
        self._open = self._use(*chosen)
        try:
            return self._content(turn)
        except KeyError as lacking:
            self._undo()
            raise CannotPlay(f'{turn.label} needs "{lacking.args[0]}", which nothing has given yet') from None

    def _content(self, turn: Turn) -> list[Block]:
        """The blocks of a turn, freshly made. Raises KeyError with a name that has no text."""
        content: list[Block] = []
        if turn.say is not None:
            said = turn.say.fill(self._look)
            content += [text_block(said)] if said.strip() else []
        number = self._open.number if self._open else 0
        for entry, call in enumerate(turn.calls):
            if call.have and not all(self.texts.get(name) for name in call.have):
                continue
            self._made += 1
            call_id = f"call_{number}_{entry}_{self._life}_{self._made}"
            made: dict[str, Any] = fill_deep(call.input, self._look)
            content.append({"type": "tool_use", "id": call_id, "name": call.tool, "input": made})
            self._register(call_id, number, call)
        if not content:
            self._undo()
            raise CannotPlay(f"{turn.label} comes to nothing: all that it has is left out")
        return content

    def _register(self, call_id: str, number: int, call: Call) -> None:
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


def _said(when: When, note: Note) -> bool:
    if when.task is not None and (note.sender != TASK_LIST or not when.task.search(note.text)):
        return False
    if when.sender is not None and not when.sender.search(note.sender):
        return False
    return when.text is None or when.text.search(note.text) is not None
