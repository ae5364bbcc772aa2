"""Forks of sessions: a second session whose conversation begins like that of another one, which stays unchanged.

The transcript is copied up to the end or to a prompt, with the mode and the list of prompts. Teams, tasks, background
commands and recorded edits stay with the first session. Depends on transcripts and rewinds.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from teamwright.agent.transcript import header_tag_key, read_header
from teamwright.edit_history.edit_journal_reader import PromptEntry, read_journal
from teamwright.edit_history.history_location import HistoryLocation, find_history
from teamwright.edit_history.rewind import append_fork, complete_rewind_of, find_position, find_prompt
from teamwright.protocol.errors import CannotStart, UsageError
from teamwright.protocol.ids import session_id
from teamwright.protocol.runtime_tags import RuntimeTags, escape_tags
from teamwright.saved.sessions import find_session, latest_session
from teamwright.session.options import Options
from teamwright.session.permission_modes import load_mode, save_mode
from teamwright.storage.atomic_write import storage_error
from teamwright.storage.paths import find_home, make_private
from teamwright.tools.files.edit_journal_writer import append_entry

_PREFIXES = "prefixes"
"""The directory of a session with the prefixes that its transcripts name."""


class SessionFork(Struct, frozen=True):
    """A new session: its id, the session that it begins like, and the prompt before which it begins, if any."""

    session: str
    source: str
    before: PromptEntry | None = None


def fork_session(place: HistoryLocation, number: int | None = None, wanted_id: str | None = None) -> SessionFork:
    """Copy the conversation of a session into a new session: all of it, or the part before prompt `number`.

    The session may be running. Raises UsageError for an unknown prompt and an id that is in use, CannotStart
    (`damaged-file`) for a session without a transcript, TeamwrightError (`undo-refused`), StorageError.
    """
    header = read_header(place.transcript) if place.transcript.exists() else None
    if header is None:
        raise CannotStart("damaged-file", f"session {place.session[:8]} has no conversation to continue")
    edits = read_journal(place.history)
    prompts, before = edits.current_prompts, None
    offset = place.transcript.stat().st_size
    if number is not None:
        before = find_prompt(place, edits, number)
        offset, together = find_position(place, before)
        prompts = [one for one in prompts if one.number < number and one.id not in together]
    new_id = session_id(wanted_id)
    target = place.transcript.with_name(f"{new_id}.jsonl")
    directory = target.with_suffix("")
    _require_new(target, directory)
    make_private(directory)
    draft = directory / "transcript"
    try:
        _copy_conversation(place, draft)
        note = RuntimeTags(header_tag_key(header)).note(_fork_note(place.session, before))
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
    if not options.fork or options.resume is None:
        return options
    home, cwd = find_home(options.home), Path(os.path.realpath(options.cwd))
    view = latest_session(home, cwd) if options.resume == "latest" else find_session(home, cwd, options.resume)
    if view.damaged:
        raise CannotStart("damaged-file", f"session {view.id[:8]} cannot be continued: {view.damaged}")
    fork = fork_session(find_history(home, cwd, view.id), wanted_id=options.session_id)
    return replace(options, resume=fork.session, session_id=None)


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


def _fork_note(session: str, before: PromptEntry | None) -> str:
    """Return the notice to the lead of a fork."""
    where = f'before the prompt "{before.text}"' if before is not None else "at its end"
    return escape_tags(
        f"The user continues this conversation in a second session. The first one is {session[:8]}, and this one begins"
        f" {where}. Teammates, tasks and background commands of the first session are not in this one. Files have"
        " their current contents: read a file again before you change it."
    )
