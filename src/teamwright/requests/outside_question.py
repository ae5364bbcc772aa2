"""The request file of a question that a person asks an agent from another terminal; the answer follows beside it.

Question and answer are private: the process that asked removes both files, and `remove_expired` those that it left.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

from teamwright.protocol.ids import LEAD, now_ms
from teamwright.requests.request_store import (
    QUESTION_PREFIX,
    USER,
    LeadProcess,
    RequestStore,
    acknowledgement_path,
    answer_path,
    file_stem,
)

KIND = "side_question"
_NAME = re.compile(rf"{QUESTION_PREFIX}([0-9]+)-[0-9a-f]{{8}}(\.answer)?\.(json|taken)")


class OutsideQuestion(Struct, frozen=True):
    """A question to a member, or to the lead, of the team that `lead` leads. The id contains its deadline."""

    id: str
    to: str
    question: str
    lead: LeadProcess

    @classmethod
    def new(cls, to: str, question: str, lead: LeadProcess, within_s: float) -> OutsideQuestion:
        """Return a question with a new id. Its answer is of no use after `within_s` seconds."""
        return cls(f"{QUESTION_PREFIX}{now_ms() + int(within_s * 1000)}-{secrets.token_hex(4)}", to, question, lead)

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> OutsideQuestion | None:
        """Return the question in a file; None for another kind, and for damaged content."""
        if body.get("kind") != KIND:
            return None
        try:
            lead = cast("dict[str, Any]", body["lead"])
            process = LeadProcess(str(lead["session"]), int(lead["pid"]), str(lead["since"]))
            return cls(str(body["id"]), str(body["to"]), str(body["question"]), process)
        except (KeyError, TypeError, ValueError):
            return None

    def open_in(self, store: RequestStore, within_s: float) -> None:
        """Open the request. `within_s`: seconds that the requester waits for an acknowledgement. Raises
        StorageError.
        """
        body = {
            "kind": KIND,
            "requester": USER,
            "to": self.to,
            "question": self.question,
            "lead": {"session": self.lead.session, "pid": self.lead.pid, "since": self.lead.since},
            "deadline": now_ms() + int(within_s * 1000),
        }
        store.open(self.id, body)

    def withdraw(self, store: RequestStore) -> None:
        """Remove the question and its answer: a call that is not answered ends."""
        path = store.directory / f"{file_stem(self.id)}.json"
        for file in (path, answer_path(path), acknowledgement_path(store, self.id)):
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)


def open_questions(store: RequestStore) -> list[OutsideQuestion]:
    """Return the questions without an answer, the oldest first. Raises StorageError."""
    return [one for body in store.open_requests() if (one := OutsideQuestion.parse(body)) is not None]


def remove_expired(store: RequestStore) -> None:
    """Remove the files of questions whose deadline has passed: the processes that asked were killed."""
    with contextlib.suppress(OSError):
        for path in store.directory.glob(f"{QUESTION_PREFIX}*"):
            found = _NAME.fullmatch(path.name)
            if found is not None and int(found[1]) < now_ms():
                path.unlink(missing_ok=True)


def describe_recipient(name: str) -> str:
    """Return the recipient's name as shown to people."""
    return "the lead" if name == LEAD else name
