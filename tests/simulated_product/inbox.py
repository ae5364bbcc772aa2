"""The other product's inboxes: how it sends, and how a process takes its mail.

2.1.41 rewrites the array in place, flags what it took, and believes that it sent when it had no lock. 2.1.329 renames,
removes what it took, drops entries without a time, and says when it could not send. How it appends was not seen: here
as it removes, by rename.
"""

import base64
import json
import os
import uuid
from typing import Any

from simulated_product.disk import Disk, as_file, now_ms, stamp
from simulated_product.mail_texts import LEAD

NOT_SENT = "Failed to write to {}'s inbox — nothing was sent. Try again, or message the lead."


class Mail:
    """All inboxes of one team, for the member `name`. `signs`: the lead of the newer format does, to pane members."""

    def __init__(self, disk: Disk, team: str, name: str, color: str | None = None, *, signs: bool = False) -> None:
        self._disk = disk
        self._team = team
        self.name = name
        self._color = color
        self._signs = signs

    def send(self, to: str, text: str, *, summary: str | None = None, color: bool = True, at: str = "") -> bool:
        """What the sender believes: True in the older format also when nothing was written."""
        entry: dict[str, Any] = {"from": self.name, "text": text}
        if summary is not None:
            entry["summary"] = summary
        entry["timestamp"] = at or stamp(now_ms())
        if color and self._color:
            entry["color"] = self._color
        if self._disk.newer:
            entry |= {"msgV": 1, "msg_id": str(uuid.uuid4()), "type": "message"}
        entry["read"] = False
        if self._disk.newer and self._signs:
            entry["lead_sig"] = base64.urlsafe_b64encode(os.urandom(64)).rstrip(b"=").decode()
        return self.put(to, entry)

    def put(self, to: str, entry: dict[str, Any]) -> bool:
        """This entry, as it is, behind the others."""
        path = self._disk.inbox(self._team, to)
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            self._disk.write(path, "[]")
        with self._disk.lock(path) as got:
            if not got:
                return not self._disk.newer
            there = self._disk.read(path)
            if isinstance(there, dict):
                return True  # left alone; the message is lost
            entries = there if isinstance(there, list) else []  # empty or cut: what was in it is lost
            self._put_back(path, [*entries, entry])
        return True

    def take(self) -> list[dict[str, Any]]:
        """All that is unread, flagged or removed by now; broken files give nothing and are left alone.

        Without the lock the older format takes it all the same, and will again at the next poll.
        """
        path = self._disk.inbox(self._team, self.name)
        if not self._unread(path):
            return []
        with self._disk.lock(path) as got:
            entries = self._disk.read(path)
            unread = self._unread(path)
            if not got:
                return [] if self._disk.newer else unread
            if not unread:
                return []
            if self._disk.newer:
                self._put_back(path, [one for one in entries if one.get("read") is True])
                return [one for one in unread if one.get("timestamp")]
            self._put_back(path, [one | {"read": True} for one in entries])
            return unread

    def _unread(self, path: Any) -> list[dict[str, Any]]:
        entries = self._disk.read(path)
        return [one for one in entries if one.get("read") is not True] if isinstance(entries, list) else []

    def _put_back(self, path: Any, entries: list[dict[str, Any]]) -> None:
        (self._disk.replace if self._disk.newer else self._disk.write)(path, as_file(entries))


def body_of(entry: dict[str, Any]) -> dict[str, Any]:
    """The JSON object in an entry's text; empty for plain text."""
    try:
        found = json.loads(entry.get("text") or "")
    except (ValueError, TypeError):
        return {}
    return found if isinstance(found, dict) and "type" in found else {}


def from_lead(entry: dict[str, Any]) -> bool:
    """Whether its sender says to be the lead: nobody else's answers and requests are obeyed here."""
    return entry.get("from") == LEAD
