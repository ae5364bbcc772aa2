"""The viewed conversation of a terminal: the lead's, or that of a member, with its history and then live.

    lead ──open NAME──▶ NAME ──back, the member has ended──▶ lead

While a member is viewed, its texts are shown as the lead's were, and the lead's texts get its name as a prefix. No text
is lost. Depends on the package `session`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

from teamwright.protocol.events import LIVE, AssistantText, MemberChanged, TeamChanged, TeamEvent, TextDelta
from teamwright.protocol.ids import LEAD, LEAD_ALIAS
from teamwright.protocol.values import dataclass
from teamwright.session.control.live_members import interrupt_member, live_members, members_at_work
from teamwright.session.lookup.live_agents import find_member
from teamwright.session.session import Session
from teamwright.ui.display_text import LineStream, cell_width, clean, cut
from teamwright.ui.terminal.conversation_lines import answer_lines, history_lines, received_lines
from teamwright.ui.terminal.narrator import NAME_WIDTH, Narrator, display_name
from teamwright.views.conversation import ConversationReader, conversation_of

MAX_HISTORY_LINES = 40
"""The number of lines of a conversation that are shown when a member is opened."""

ShowLines = Callable[[Sequence[str]], None]


@dataclass(slots=True)
class ConversationView:
    """The view: `name` is the viewed agent, at first the lead."""

    session: Session
    narrator: Narrator
    show: ShowLines
    name: str = LEAD
    _conversation: ConversationReader | None = None
    _streams: dict[str, LineStream] = field(default_factory=lambda: {LEAD: LineStream()})

    @property
    def viewed_member(self) -> str:
        """The member that is viewed; empty for the lead."""
        return "" if self.name == LEAD else self.name

    @property
    def is_working(self) -> bool:
        """True while the viewed member is working."""
        return self.viewed_member in members_at_work(self.session)

    def label(self) -> str:
        """Return the label before the input line."""
        return f"@{display_name(self.name)}> " if self.viewed_member else "> "

    # ── open and return ─────────────────────────────────────────────────────────────────────────────────────────

    def open(self, name: str) -> None:
        """Show the last messages and answers of a member, then its events. Raises UnknownMember, InvalidName."""
        mate = find_member(self.session.team, name, "nothing was changed")
        if mate is None:
            self.return_to_lead()
            return
        conversation = conversation_of(mate)
        member = next(one for one in live_members(self.session) if one.name == mate.name)
        self._end_stream(self.name)
        self.name, self._conversation = member.name, conversation
        self._streams.setdefault(member.name, LineStream())
        about = f"{display_name(member.name)} · {member.state} · {clean(member.model)} · {clean(str(member.backend))}"
        self.show(
            [
                self._heading(about),
                *self._history_lines(conversation),
                "  your lines go to it · Esc or /view: back to the lead",
            ]
        )

    def return_to_lead(self) -> None:
        """Return to the lead; no effect when the lead is viewed."""
        if not self.viewed_member:
            return
        self._end_stream(self.name)
        self._streams.pop(self.name, None)
        self.name, self._conversation = LEAD, None
        self.show([self._heading(LEAD_ALIAS)])

    def interrupt(self) -> None:
        """Interrupt the turn of the viewed member only."""
        name = display_name(self.name)
        if interrupt_member(self.session, self.name):
            self.show([f"{name}'s turn was ended; it waits for your message. All others continue."])
        else:
            self.show([f"{name}'s turn cannot be cut from here; /stop ends {name}"])

    # ── events ─────────────────────────────────────────────────────────────────────────────────────────────────

    def handle_before(self, event: TeamEvent) -> bool:
        """Show the text of an event, before its other lines. Return True when it needs no other line."""
        if isinstance(event, TextDelta):
            if (stream := self._streams.get(event.member)) is not None:
                self._say(event.member, stream.add(event.text))
            return True
        if event.member in self._streams:
            self._end_stream(event.member)
        if not self.viewed_member or event.member != self.name or self._conversation is None:
            return isinstance(event, AssistantText)
        if isinstance(event, AssistantText):
            is_received = self._conversation.live and event.message["role"] == "user"
            self.show(received_lines(event.content, self.name, self.narrator) if is_received else [])
            return True
        if not self._conversation.live and not isinstance(event, LIVE):
            self._catch_up(self._conversation)
        return False

    def handle_after(self, event: TeamEvent) -> None:
        """Return to the lead when the viewed member has ended."""
        if (
            self.viewed_member
            and isinstance(event, MemberChanged | TeamChanged)
            and self.session.team.find(self.name) is None
        ):
            self.return_to_lead()

    def flush_lead(self) -> None:
        """Show the rest of the lead's text at the end of its turn."""
        self._end_stream(LEAD)

    def _catch_up(self, reader: ConversationReader) -> None:
        for message in reader.new_messages():
            if message["role"] == "user":
                self.show(received_lines(message["content"], self.name, self.narrator))
            else:
                self.show(answer_lines([message]))

    def _end_stream(self, name: str) -> None:
        self._say(name, self._streams[name].end())

    def _say(self, name: str, lines: Sequence[str]) -> None:
        """Show texts of the viewed agent unchanged, and those of the lead, while a member is viewed, with its name."""
        gap = " " * max(1, NAME_WIDTH + 1 - cell_width(display_name(name)))
        head = "" if name == self.name else f"{self.narrator.name(name)}{gap}"
        self.show([head + clean(line) for line in lines])

    def _history_lines(self, reader: ConversationReader) -> list[str]:
        if reader.foreign:
            return ["  another program runs it, and has its conversation; what it writes to the team is shown here"]
        lines = history_lines(reader.recent(MAX_HISTORY_LINES), self.name, self.narrator)
        return lines if len(lines) <= MAX_HISTORY_LINES else ["  …", *lines[-MAX_HISTORY_LINES:]]

    def _heading(self, about: str) -> str:
        room = max(20, self.narrator.width - 1)
        head = cut(f"── {about} ", room)
        return self.narrator.paint("bold", head + "─" * (room - cell_width(head)))
