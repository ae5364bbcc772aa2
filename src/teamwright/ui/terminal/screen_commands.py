"""Commands of a terminal that need its screen: the viewed member, open requests, questions with yes or no.

Depends on the package `session`, the view and the editor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from teamwright.config.instruction_notes import NoteFile
from teamwright.protocol.ids import LEAD
from teamwright.session.control.person_notes import note_choices, store_note
from teamwright.session.session import Session
from teamwright.ui.display_text import clean
from teamwright.ui.terminal.commands import HANDLERS
from teamwright.ui.terminal.conversation_view import ConversationView
from teamwright.ui.terminal.edit_history_commands import diff_lines, fork_lines, review_team_lines, undo_lines
from teamwright.ui.terminal.editor_protocol import ReadCancelled
from teamwright.ui.terminal.event_formatter import EventFormatter
from teamwright.ui.terminal.line_input import LineInput
from teamwright.ui.terminal.line_parser import TerminalCommand
from teamwright.views.assets import display_path


class ScreenCommands(Struct):
    """The commands of one screen. `show` prints lines, `show_folded` breaks them between words, `open_view` views an
    agent and reports an unknown name.
    """

    session: Session
    formatter: EventFormatter
    view: ConversationView
    line_input: LineInput
    show: Callable[[Sequence[str]], None]
    show_folded: Callable[[Sequence[str]], None]
    open_view: Callable[[str], None]

    async def run(self, line: TerminalCommand) -> None:
        """Run a command. Raises TeamwrightError."""
        viewed = self.view.viewed_member
        match line:
            case TerminalCommand(name="/view"):
                self.open_view(line.rest.strip().removeprefix("@") or LEAD)
            case TerminalCommand(name="/stop", rest="") if viewed:
                await self._stop_viewed(viewed)
            case TerminalCommand(name="/interrupt", rest="") if viewed:
                self.view.interrupt()
            case TerminalCommand(name="/requests"):
                questions = self.line_input.requests
                self.show([] if questions.restore_postponed() else questions.lines(self.formatter))
            case TerminalCommand(name="/diff"):
                self.show(await diff_lines(self.session, line.rest, self.formatter.paint))
            case TerminalCommand(name="/fork"):
                self.show_folded(await fork_lines(self.session, line.rest))
            case TerminalCommand(name="/review-team"):
                self.show(await review_team_lines(self.session, line.rest, self.formatter.paint))
            case TerminalCommand(name="/undo"):
                self.show_folded(await undo_lines(self.session, line.rest, self.show, self._agrees))
            case _:
                self.show_folded(await HANDLERS[line.name](self.session, line.rest))

    async def remember(self, note: str) -> None:
        """Store a note in the instruction file that the person chooses. Raises TeamwrightError."""
        if not note:
            self.show_folded(["  # NOTE stores the note in an instruction file, which each session reads"])
            return
        files = note_choices(self.session)
        self.show_folded(["  the file for this note, which each session reads:", *map(self._note_row, files)])
        keys = {key: file for file in files for key in (file.scope, file.scope[0])}
        reply = await self._reply(f"store in [{'/'.join(file.scope[0] for file in files)}], Enter cancels: ")
        if (file := keys.get(reply)) is None:
            self.show_folded(["  nothing was stored and nothing was sent; a blank before the # sends the line"])
            return
        store_note(self.session, file, note)
        where = display_path(file.path, self.session.agent_factory.work_directory)
        self.show_folded([f"  stored in {clean(where)}", "  the lead reads it with your next prompt"])

    def _note_row(self, file: NoteFile) -> str:
        about = {"user": "you, in every project", "project": "everyone who works here", "local": "you, in this project"}
        where = display_path(file.path, self.session.agent_factory.work_directory)
        return f"  {file.scope[0]}  {file.scope:<8} {clean(where)}: for {about[file.scope]}"

    async def _stop_viewed(self, name: str) -> None:
        """End the viewed member for good after the person confirmed."""
        if await self._agrees(f"end {clean(name)} for good? [y/n] "):
            self.show_folded(await HANDLERS["/stop"](self.session, name))
        else:
            self.show([f"  {clean(name)} stays"])

    async def _agrees(self, question: str) -> bool:
        """Ask the person a question of the terminal and return True for yes."""
        return await self._reply(question) in {"y", "yes"}

    async def _reply(self, question: str) -> str:
        """Return the answer to a question of the terminal in lower case; empty when it was withdrawn."""
        try:
            return (await self.line_input.editor.answer(question)).strip().lower()
        except (ReadCancelled, EOFError):
            return ""
