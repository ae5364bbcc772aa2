"""`/rewind`: the choice of an earlier prompt. The session is left as with `/quit`, taken back, and opened again.

The prompt and the plan are agreed before anything ends. Depends on the package `edit_history`; the caller ends and
opens the session.
"""

from __future__ import annotations

from collections.abc import Sequence

from teamwright.edit_history.edit_journal import PromptEntry, Scope
from teamwright.edit_history.history_location import HistoryLocation, find_history, history_of_session
from teamwright.edit_history.rewind import preview_rewind, rewind_list, rewind_on_disk
from teamwright.edit_history.undo import COMMANDS_STAY
from teamwright.edit_history.undo_plan import UndoPlan
from teamwright.protocol.errors import UsageError
from teamwright.session.options import Options
from teamwright.session.session import Session
from teamwright.storage.paths import find_home
from teamwright.ui.change_text import TAKEN_BACK, plan_rows, rewound_lines
from teamwright.ui.display_text import clean, one_line
from teamwright.ui.terminal.editor import Editor, ReadCancelled
from teamwright.ui.terminal.session_switch import NextSession, ShowLines

REWIND_USAGE = "/rewind [N] [--conversation-only | --files-only]"
MAX_PROMPTS = 20
"""The number of prompts that the list shows, the newest ones."""

_SCOPES: dict[str, Scope] = {"--conversation-only": "conversation", "--files-only": "files"}


async def choose_rewind(session: Session, rest: str, editor: Editor, show: ShowLines) -> NextSession | None:
    """Return this session with the rewind that the person chose and confirmed; None when nothing is to change.

    Raises UsageError for wrong arguments and TeamwrightError (`undo-refused`); nothing has ended then.
    """
    number, scope = _parse(rest)
    place = history_of_session(session)
    prompts = rewind_list(place).prompts
    if not prompts:
        show(["  this session has no prompt to go back to"])
        return None
    if number is None:
        number = await _ask_for_prompt(prompts, editor, show)
    if number is None or (plan := await _confirm(place, number, scope, editor, show)) is None:
        show(["  nothing was changed"])
        return None
    return NextSession(session.id, session.agent_factory.cwd, rewind=plan)


async def rewind_left_session(options: Options, plan: UndoPlan) -> list[str]:
    """Take the session of these options, which no process runs, back by the confirmed plan; return report lines.

    Raises TeamwrightError when the plan does not fit any more: nothing was changed then.
    """
    place = find_history(find_home(options.home), options.cwd, str(options.resume))
    return rewound_lines(await rewind_on_disk(place, plan.prompt.number, plan.scope, agreed=plan))


def _parse(rest: str) -> tuple[int | None, Scope]:
    words = rest.split()
    scopes: list[Scope] = [_SCOPES[word] for word in words if word in _SCOPES]
    numbers = [word for word in words if word.isascii() and word.isdigit()]
    if len(scopes) > 1 or len(numbers) > 1 or len(scopes) + len(numbers) < len(words):
        what = f"/rewind does not understand '{rest}'"
        raise UsageError("usage", what, do=[REWIND_USAGE], note="nothing was changed")
    scopes.append("all")
    return (int(numbers[0]) if numbers else None), scopes[0]


async def _ask_for_prompt(prompts: Sequence[PromptEntry], editor: Editor, show: ShowLines) -> int | None:
    """Ask for the number of a prompt; None to stay."""
    newest = prompts[-MAX_PROMPTS:]
    show([f"  {one.number:>3}  {clean(one_line(one.text))}" for one in newest])
    while True:
        reply = await _reply(editor, "back to the time before which prompt? (a number; Enter stays) ")
        if not reply:
            return None
        if reply.isascii() and reply.isdigit() and int(reply) in {one.number for one in prompts}:
            return int(reply)
        show([f"  a number from {newest[0].number} to {newest[-1].number}, or Enter to stay"])


async def _confirm(
    place: HistoryLocation, number: int, scope: Scope, editor: Editor, show: ShowLines
) -> UndoPlan | None:
    """Show the plan, and return it after a yes."""
    plan = preview_rewind(place, number, scope)
    rows = [f"  {clean('  '.join(part for part in row if part))}" for row in plan_rows(plan, place.cwd)]
    if not rows and scope != "conversation":
        rows = ["  no file was edited since then"]
    show([f'  before "{clean(one_line(plan.prompt.text))}": {TAKEN_BACK[scope]}', *rows, f"  {COMMANDS_STAY}"])
    return plan if await _reply(editor, "go back? [y/n] ") in {"y", "yes"} else None


async def _reply(editor: Editor, question: str) -> str:
    try:
        return (await editor.answer(question)).strip().lower()
    except (ReadCancelled, EOFError):
        return ""
