"""What the product's safety rests on, switched off one at a time: the suite must notice each.

Done in the processes of the suite by putting something else in a function's place; the product knows nothing of it.
`python -m tests.crash.mutations COMMAND…` runs the command line without a safety, in place of that command.
"""

import os
import secrets
import sys
from collections.abc import Callable

from teamwright.agent import conversation
from teamwright.agent.conversation import Conversation
from teamwright.session.session import Session
from teamwright.storage import files, json_lines, locks
from teamwright.team_records.roster import Roster
from teamwright.team_records.team_state import TeamFile
from teamwright.teams import undelivered_mail
from teamwright.tools.files import file_change

VARIABLE = "CRASH_MUTATION"


def no_guard() -> None:
    """Nobody waits for the guard: everybody has it."""
    locks._flock = lambda fd: True


def no_ledger() -> None:
    """No transcript is asked what it holds."""
    conversation.find_delivered_ids = undelivered_mail.find_delivered_ids = lambda transcript, ids: set()


def no_owed_rule() -> None:
    """What a conversation was told last, and never answered, is forgotten when it is loaded."""
    load = Conversation.load.__func__

    def loaded(cls, path, prefix):
        made = load(cls, path, prefix)
        made.owes_answer = False
        return made

    Conversation.load = classmethod(loaded)


def no_trim() -> None:
    """A line that was never finished stays at the end of a journal."""
    json_lines._end_of_last_line = lambda fd, size: size


def no_rename() -> None:
    """Whole files are written in their place."""

    def commit(draft) -> None:
        content = os.pread(draft.fd, os.fstat(draft.fd).st_size, 0)
        os.close(draft.fd)
        draft.fd = os.open(draft.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.write(draft.fd, content)
        os.unlink(draft.temporary_path)

    files.PendingFile.commit = commit


def no_key() -> None:
    """A call that is made again after a kill has another key."""
    Conversation.step_key = lambda self, what: secrets.token_hex(8)


def no_parting() -> None:
    """Nothing is noted of a member that ends."""
    TeamFile.with_pending_end = lambda self, parting: self


def no_places() -> None:
    """Members that a signal ends with their lead lose their places."""
    wind_down = Session.stop_members
    Session.stop_members = lambda self, *cause, keep=False: wind_down(self, *cause)


def no_former() -> None:
    """The former content of a file that is changed is not kept."""
    file_change.record_edit = lambda *given: None


def no_restored_roster() -> None:
    """A roster that another program left empty stays empty."""

    async def restore(self, config):
        return None

    Roster.restore = restore


ALL: dict[str, Callable[[], None]] = {
    "guard": no_guard,
    "ledger": no_ledger,
    "owed": no_owed_rule,
    "trim": no_trim,
    "rename": no_rename,
    "key": no_key,
    "parting": no_parting,
    "places": no_places,
    "former": no_former,
    "roster": no_restored_roster,
}
OF_PROGRAM = {"places": ("term", "hup"), "former": ("kill",), "roster": ("kill",)}
"""Those that the real program runs without, with its members in its process; and how it is struck then."""


def apply(name: str) -> None:
    """Switch it off in this process; an empty name changes nothing."""
    if name:
        ALL[name]()


if __name__ == "__main__":
    from teamwright.__main__ import main

    apply(os.environ.get(VARIABLE, ""))
    sys.argv = sys.argv[3:]  # without `python -m`
    main()
