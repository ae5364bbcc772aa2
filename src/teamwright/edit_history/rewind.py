"""Rewinds and forks: a session's conversation and files before a prompt, in this session or in a second one.

A rewind is for a session without a process. Its intent is a line of the edit journal, written first; one that a kill
interrupted is completed by the next rewind, and before the session is resumed. The transcript gets one more line that
continues with the messages before the prompt (format: docs/reference/formats/transcript.md). A fork copies the
transcript up to the end or to a prompt, with the mode and the list of prompts; the first session stays unchanged.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.conversation import INTERRUPTED_RESULT
from teamwright.agent.fork_origin import count_answers
from teamwright.agent.transcript import (
    INJECTED_KEY,
    MESSAGE_KEY,
    PROMPT_ID,
    REWIND,
    USER_LINE,
    CompactBoundary,
    History,
    header_tag_key,
    line_ids,
    line_uuid,
    newest_delivered_ids,
    read_header,
    read_history,
    without_thinking,
)
from teamwright.edit_history.edit_journal_reader import EditJournal, PromptEntry, Scope, read_journal
from teamwright.edit_history.history_location import HistoryLocation, find_history, running_members
from teamwright.edit_history.queries import leave_notice, require_agreed, take_lease
from teamwright.edit_history.removed_worktrees import RemovedWorktrees
from teamwright.edit_history.undo import UndoPlan, UndoResult, apply_undo, plan_rewind
from teamwright.protocol.errors import CannotStart, TeamwrightError, UsageError
from teamwright.protocol.ids import session_id
from teamwright.protocol.messages import Block, decode, encode, tool_calls, tool_result_block
from teamwright.protocol.runtime_tags import RuntimeTags, escape_tags
from teamwright.saved.sessions import find_session, latest_session
from teamwright.session.modes_and_grants import load_mode, save_mode
from teamwright.session.options import Options
from teamwright.storage.files import storage_error
from teamwright.storage.json_lines import Journal, read_backward_with_offsets, read_lines
from teamwright.storage.paths import find_home, make_private
from teamwright.tools.files.edit_journal_writer import append_entry


class RewindList(Struct, frozen=True):
    """The prompts to which a session can go back, oldest first. `cut_off` is the time of an interrupted rewind."""

    session: str
    prompts: tuple[PromptEntry, ...]
    cut_off: str = ""


def rewind_list(place: HistoryLocation) -> RewindList:
    """Return the prompts of the session's current conversation. Raises StorageError."""
    edits = read_journal(place.history)
    cut_off = edits.cut_off.at if edits.cut_off is not None and edits.cut_off.scope else ""
    return RewindList(place.session, tuple(edits.current_prompts), cut_off)


def preview_rewind(place: HistoryLocation, number: int, scope: Scope) -> UndoPlan:
    """Return the plan of a rewind to the time before prompt `number`, without changes.

    Raises UsageError for an unknown number, TeamwrightError (`undo-refused`) when the transcript has no such prompt.
    """
    return _plan(place, read_journal(place.history), number, scope)


async def rewind_on_disk(
    place: HistoryLocation, number: int, scope: Scope, *, agreed: UndoPlan | None = None
) -> UndoResult:
    """Take a session without a process back. `agreed` is the plan that the person confirmed.

    Raises CannotStart (`session-busy`) while a process runs the session, and TeamwrightError (`undo-refused`) while
    member processes run and when the plan differs from `agreed`.
    """
    lease = take_lease(place, "rewind")
    try:
        if alive := running_members(place):
            raise TeamwrightError(
                "undo-refused",
                f"{', '.join(alive)} {'has a process' if len(alive) == 1 else 'have processes'} and may be at work",
                do=[f"end it: teamwright stop {quote(place.team)}"],
                note="nothing was changed",
            )
        plan = _plan(place, read_journal(place.history), number, scope)
        require_agreed(plan, agreed)
        return await _apply(place, plan)
    finally:
        lease.release()


async def complete_rewind(place: HistoryLocation) -> UndoResult | None:
    """Complete the rewind that a kill interrupted. None without one. Raises CannotStart, StorageError."""
    if not rewind_list(place).cut_off:
        return None
    lease = take_lease(place, "rewind")
    try:
        edits = read_journal(place.history)
        if edits.cut_off is None or not edits.cut_off.scope:
            return None
        return await _apply(place, plan_rewind(edits, place.history, edits.cut_off.prompt, edits.cut_off.scope))
    finally:
        lease.release()


async def complete_rewind_of(options: Options) -> None:
    """Complete an interrupted rewind of the session that these options resume, before it is opened.

    An unknown session and a session in use are left to the resume, which names them. Raises StorageError.
    """
    if options.resume is None:
        return
    home = find_home(options.home)
    try:
        cwd = Path(os.path.realpath(options.cwd))
        view = latest_session(home, cwd) if options.resume == "latest" else find_session(home, cwd, options.resume)
        if rewind_list(HistoryLocation(view.directory, view.id, view.cwd)).cut_off:
            await complete_rewind(find_history(home, cwd, view.id))
    except (CannotStart, TeamwrightError) as problem:
        if problem.slug not in {"unknown-session", "session-busy"}:
            raise


async def _apply(place: HistoryLocation, plan: UndoPlan) -> UndoResult:
    """Carry out the plan: the intent, the files, the conversation, and last the end of the intent."""
    if plan.scope == "files":
        return await apply_undo(place.history, place.cwd, plan, partial(leave_notice, place))
    offset, _ = find_position(place, plan.prompt)

    def rewind_conversation(id: str, text: str) -> None:
        tags = RuntimeTags(header_tag_key(read_header(place.transcript) or {}))
        append_rewind(place.transcript, offset, f"notice:undo-{id}", [tags.note(text)])

    return await apply_undo(place.history, place.cwd, plan, rewind_conversation)


def _plan(place: HistoryLocation, edits: EditJournal, number: int, scope: Scope) -> UndoPlan:
    if edits.cut_off is not None and edits.cut_off.scope:
        raise TeamwrightError(
            "undo-refused",
            "an earlier rewind was interrupted",
            do=[f"complete it: teamwright rewind {place.session[:8]}"],
            note="nothing was changed",
        )
    prompt = find_prompt(place, edits, number)
    if scope != "files":
        _, together = find_position(place, prompt)
        # Prompts that one line delivered leave the conversation together.
        number = min(one.number for one in edits.current_prompts if one.id in together)
    return RemovedWorktrees(place.home, place.cwd).explain_plan(plan_rewind(edits, place.history, number, scope))


def find_prompt(place: HistoryLocation, edits: EditJournal, number: int) -> PromptEntry:
    """Return the prompt of the current conversation with this number. Raises UsageError."""
    known = {prompt.number: prompt for prompt in edits.current_prompts}
    if number in known:
        return known[number]
    ends = f"the prompts have the numbers {min(known)} to {max(known)}" if known else "it has no prompts"
    raise UsageError(
        "usage",
        f"the conversation has no prompt {number}",
        looked_at=[("session", place.session), ("prompts", ends)],
        do=[f"list them: teamwright rewind {place.session[:8]}"],
        note="nothing was changed",
    )


def find_position(place: HistoryLocation, prompt: PromptEntry) -> tuple[int, tuple[str, ...]]:
    """Return the offset of the transcript's line that delivered this prompt, and all ids that the line delivered.

    Raises TeamwrightError (`undo-refused`) when the lead never received it.
    """
    found = prompt_position(place.transcript, prompt.id)
    if found is None:
        raise TeamwrightError(
            "undo-refused",
            "the lead never received that prompt, so the conversation has no such position",
            looked_at=[("prompt", f"{prompt.number}: {prompt.text}"), ("transcript", str(place.transcript))],
            do=["choose another prompt", "only the files: add --files-only"],
            note="nothing was changed",
        )
    return found


_PREFIXES = "prefixes"
"""The directory of a session with the prefixes that its transcripts name."""


class SessionFork(Struct, frozen=True):
    """A new session: its id, the session that it begins like, and the prompt before which it begins, if any."""

    session: str
    source: str
    before: PromptEntry | None = None


def fork_session(
    place: HistoryLocation, number: int | None = None, wanted_id: str | None = None, *, upto: int | None = None
) -> SessionFork:
    """Copy the conversation of a session into a new session: all of it, or the part before prompt `number`.

    `upto`: the part in the first bytes of the transcript, which end with a line.

    The session may be running. Raises UsageError for an unknown prompt and an id that is in use, CannotStart
    (`damaged-file`) for a session without a transcript, TeamwrightError (`undo-refused`), StorageError.
    """
    header = read_header(place.transcript) if place.transcript.exists() else None
    if header is None:
        raise CannotStart("damaged-file", f"session {place.session[:8]} has no conversation to continue")
    edits = read_journal(place.history)
    prompts = edits.current_prompts
    before = None
    offset = place.transcript.stat().st_size
    if number is not None:
        before = find_prompt(place, edits, number)
        offset, together = find_position(place, before)
        prompts = [one for one in prompts if one.number < number and one.id not in together]
    elif upto is not None and upto < offset:
        offset, later = upto, delivered_after(place.transcript, upto)
        prompts = [one for one in prompts if one.id not in later]
    new_id = session_id(wanted_id)
    target = place.transcript.with_name(f"{new_id}.jsonl")
    directory = target.with_suffix("")
    _require_new(target, directory)
    make_private(directory)
    draft = directory / "transcript"
    try:
        _copy_conversation(place, draft)
        note = RuntimeTags(header_tag_key(header)).note(_fork_note(place.session, before, is_shorter=upto is not None))
        append_fork(draft, offset, f"notice:fork-{new_id}", [note])
        for prompt in prompts:
            append_entry(directory / "history", {"at": prompt.at, "prompt": prompt.id, "text": prompt.text})
        if (mode := load_mode(place.directory)) is not None:
            save_mode(directory, mode)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return SessionFork(new_id, place.session, before)


async def prepare_resume(options: Options) -> Options:
    """Return the options that open the session to resume, or its fork. An interrupted rewind is completed first.

    Raises as `fork_session`, and CannotStart, TeamwrightError for an unknown session.
    """
    await complete_rewind_of(options)
    if options.resume is None or not (options.fork or options.resume_at):
        return options
    home = find_home(options.home)
    cwd = Path(os.path.realpath(options.cwd))
    view = latest_session(home, cwd) if options.resume == "latest" else find_session(home, cwd, options.resume)
    if view.damaged:
        raise CannotStart("damaged-file", f"session {view.id[:8]} cannot be continued: {view.damaged}")
    place = find_history(home, cwd, view.id)
    upto = message_end(place, options.resume_at, options.dropped_prompt) if options.resume_at else None
    if not options.fork:
        if upto is not None:
            await _rewind_to(place, upto)
        return options
    fork = fork_session(place, wanted_id=options.session_id, upto=upto)
    return replace(options, resume=fork.session, session_id=None)


DROPS_TURN = "Resume rejected by --resume-drops-turn:"
"""The beginning of the refusal, by which clients of the SDK recognise it."""


def message_end(place: HistoryLocation, uuid: str, dropped_prompt: str | None) -> int:
    """Return the offset after the message of this uuid in the session's transcript.

    `dropped_prompt` is the uuid of the one prompt whose turn may come after it. Raises UsageError for an unknown
    message, and when other messages come after it.
    """
    later = list[bytes]()
    for end, line in read_backward_with_offsets(place.transcript):
        if line_uuid(line) == uuid:
            if dropped_prompt is not None:
                _require_one_turn(later[::-1], dropped_prompt)
            return end
        later.append(line)
    raise UsageError(
        "usage",
        f"the conversation has no message {uuid[:60]!r}",
        looked_at=[("flag", "--resume-session-at"), ("transcript", str(place.transcript))],
        note="nothing was started",
    )


def _require_one_turn(later: Sequence[bytes], prompt: str) -> None:
    """Raise UsageError unless these lines are the turn of that prompt, without other messages that came in."""
    ids = [id for line in later if line.startswith(USER_LINE) for id in line_ids(line)]
    messages = [line for line in later if line_uuid(line)]
    why = ""
    if not messages or line_uuid(messages[0]) != prompt:
        why = f"the turn that follows is not the one of the prompt {prompt[:60]!r}"
    elif others := [id for id in ids if id != f"{PROMPT_ID}{prompt}"]:
        why = f"{len(others)} other messages would be left out too, the first one is {others[0][:80]}"
    if why:
        do = ["leave both flags out, to continue with all of it"]
        raise UsageError("usage", f"{DROPS_TURN} {why}", do=do, note="nothing was started")


async def _rewind_to(place: HistoryLocation, upto: int) -> None:
    """Take the conversation of a session without a process back to the end of a turn. Raises as `rewind_on_disk`."""
    later = delivered_after(place.transcript, upto)
    first = next((one for one in rewind_list(place).prompts if one.id in later), None)
    if first is None:
        if upto >= place.transcript.stat().st_size or not later:
            return
    elif find_position(place, first)[0] == upto:
        await rewind_on_disk(place, first.number, "conversation")
        return
    raise UsageError(
        "usage",
        "the session can go back to the end of a turn only",
        do=["add --fork-session, to continue in a copy"],
        note="nothing was started",
    )


def delivered_after(transcript: Path, offset: int) -> set[str]:
    """Return the ids that the lines from this offset on delivered."""
    return {id for line in read_lines(transcript, offset) if INJECTED_KEY in line for id in line_ids(line)}


def _require_new(transcript: Path, directory: Path) -> None:
    if transcript.exists() or directory.exists():
        raise UsageError(
            "usage",
            f"there is a session of the id {transcript.stem} already",
            do=["leave --session-id out: a fork gets a new id"],
            note="nothing was started",
        )


def _copy_conversation(place: HistoryLocation, target: Path) -> None:
    """Copy the transcript to `target` and its prefixes beside it, readable for their owner. Raises StorageError."""
    prefixes = target.parent / _PREFIXES
    make_private(prefixes)
    try:
        for prefix in (place.directory / _PREFIXES).glob("*.json"):
            shutil.copy(prefix, prefixes)
        shutil.copyfile(place.transcript, target)
        target.chmod(0o600)
    except OSError as problem:
        raise storage_error(problem, target) from problem


def _fork_note(session: str, before: PromptEntry | None, *, is_shorter: bool) -> str:
    """Return the notice to the lead of a fork."""
    end = "after an earlier message of it" if is_shorter else "at its end"
    where = f'before the prompt "{before.text}"' if before is not None else end
    return escape_tags(
        f"The user continues this conversation in a second session. The first one is {session[:8]}, and this one begins"
        f" {where}. Teammates, tasks and background commands of the first session are not in this one. Files have"
        " their current contents: read a file again before you change it."
    )


FORK = "fork"
"""The trigger in the line that begins the own part of a forked session."""


def prompt_position(transcript: Path, prompt: str) -> tuple[int, tuple[str, ...]] | None:
    """Return the offset of the line that delivered this prompt, and all ids that it delivered.

    None when the transcript has no such line.
    """
    for end, line in read_backward_with_offsets(transcript):
        if prompt.encode() in line and INJECTED_KEY in line[: line.find(MESSAGE_KEY)]:
            ids = line_ids(line)
            if prompt in ids:
                return end - len(line) - 1, tuple(ids)
    return None


def append_rewind(transcript: Path, offset: int, note_id: str, note: Sequence[Block]) -> None:
    """Append the line that takes the conversation back to the position `offset`, unless it is there already.

    The note waits for the next prompt under its id, which also identifies the rewind. Only the transcript's one writer
    may call this. Raises StorageError.
    """
    now = read_history(transcript)
    if note_id in now.queued:
        return
    boundary = _rewound(transcript, now, read_history(transcript, offset), {**now.queued, note_id: list(note)})
    _append_boundary(transcript, boundary, REWIND)


def append_fork(transcript: Path, offset: int, note_id: str, note: Sequence[Block]) -> None:
    """Append the line that continues a copied conversation at the position `offset`.

    Calls without a result get one, no answer is owed, and of waiting messages only the note remains: the others wait
    in the first session. Raises StorageError.
    """
    now = read_history(transcript)
    boundary = _rewound(transcript, now, read_history(transcript, offset), {note_id: list(note)})
    _append_boundary(transcript, boundary, FORK)


def _append_boundary(transcript: Path, boundary: CompactBoundary, trigger: str) -> None:
    journal = Journal.open(transcript)
    try:
        journal.append(boundary.encode_line({"trigger": trigger, "before": 0}))
    finally:
        journal.close()


def _rewound(transcript: Path, now: History, before: History, queued: dict[str, list[Block]]) -> CompactBoundary:
    """Return the line's content. Message and answer numbers continue from the state before the rewind."""
    items = list(before.items) if before.prefix == now.prefix else list(map(without_thinking, before.items))
    if before.has_unanswered:
        calls = tool_calls(cast("list[Block]", decode(items[-1])["content"]))
        results = [tool_result_block(call.id, INTERRUPTED_RESULT, is_error=True) for call in calls]
        items.append(encode({"role": "user", "content": results}))
    summarized = 0
    answers = 0
    if now.boundary is not None:
        summarized = max(0, now.boundary.summarized_count - 1)
        answers = now.boundary.answer_count
    delivered_ids, older = newest_delivered_ids(transcript)
    return CompactBoundary(
        line_count=now.lines,
        messages=tuple(items),
        summarized_count=max(0, summarized + len(now.items) - len(items)) + 1,
        answer_count=answers + count_answers(now.items) - count_answers(items),
        delivered_ids=delivered_ids,
        has_older_ids=older,
        queued=queued,
        prefix=now.prefix,
        parent=before.newest_uuid,
    )
