"""What the product's safety rests on, switched off one at a time: the suite must notice each.

Done in the processes of the suite by putting something else in a function's place; the product knows nothing of it.
"""

import os
import secrets
from collections.abc import Callable

from teamwright.agent import conversation
from teamwright.agent.conversation import Conversation
from teamwright.storage import atomic, jsonl, lock
from teamwright.teams.mailing import returning
from teamwright.teams.team_file import TeamFile

VARIABLE = "CRASH_MUTATION"


def no_guard() -> None:
    """Nobody waits for the guard: everybody has it."""
    lock._flock = lambda fd: True


def no_ledger() -> None:
    """No transcript is asked what it holds."""
    conversation.ids_held = returning.ids_held = lambda transcript, ids: set()


def no_owed_rule() -> None:
    """What a conversation was told last, and never answered, is forgotten when it is loaded."""
    load = Conversation.load.__func__

    def loaded(cls, path, prefix):
        made = load(cls, path, prefix)
        made.owes_round = False
        return made

    Conversation.load = classmethod(loaded)


def no_trim() -> None:
    """A line that was never finished stays at the end of a journal."""
    jsonl._end_of_last_line = lambda fd, size: size


def no_rename() -> None:
    """Whole files are written in their place."""

    def commit(draft) -> None:
        content = os.pread(draft.fd, os.fstat(draft.fd).st_size, 0)
        os.close(draft.fd)
        draft.fd = os.open(draft.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.write(draft.fd, content)
        os.unlink(draft.tmp)

    atomic.Draft.commit = commit


def no_key() -> None:
    """A call that is made again after a kill has another key."""
    Conversation.key = lambda self, what: secrets.token_hex(8)


def no_parting() -> None:
    """Nothing is noted of a member that ends."""
    TeamFile.leaving = lambda self, parting: self


ALL: dict[str, Callable[[], None]] = {
    "guard": no_guard,
    "ledger": no_ledger,
    "owed": no_owed_rule,
    "trim": no_trim,
    "rename": no_rename,
    "key": no_key,
    "parting": no_parting,
}


def apply(name: str) -> None:
    """Switch it off in this process; an empty name changes nothing."""
    if name:
        ALL[name]()
