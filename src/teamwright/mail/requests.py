"""Requests: somebody waits for an answer, and the first answer counts.

Two files a request: `<id>.json`, written once by the requester, and `<id>.answer.json`, linked into place once by
whoever is first. Knows `storage`. Does not know what is asked, who may answer, nor what an answer means.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

from teamwright.mail.salvage import set_aside
from teamwright.protocol.clock import now_ms
from teamwright.protocol.errors import InvalidName, TeamRefused, UsageError
from teamwright.storage.atomic import storage_error, write_new

VERSION = 1

_KEYS = ("requester", "target", "incarnation", "opened_at", "deadline")
_ANSWER = ".answer"
_LONGEST_NAME = 200
_ODD = re.compile(rb"[^A-Za-z0-9._@-]")
_AMBIGUOUS = re.compile(r"^\.|\.(?=answer$)")


class RequestBox:
    """The directory of a team's requests. Every call raises StorageError when the disk refuses."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def open(self, request_id: str, body: Mapping[str, Any]) -> Path:
        """Ask. Returns the request's file, which carries `id`, `v`, the body, and the five keys of every request.

        Those are requester, target, incarnation, opened_at and deadline (ms since 1970); a missing one is null, but
        opened_at is now. Opening the same again changes nothing. Raises UsageError when the id is in use for
        something else, InvalidName for an id that cannot be a file's name.
        """
        path = self._path(request_id)
        whole = {"id": request_id, "v": VERSION} | dict.fromkeys(_KEYS) | {"opened_at": now_ms()} | dict(body)
        if not write_new(path, _encode(whole)):
            there = self.get(request_id) or {}
            if any(there.get(key) != value for key, value in json.loads(_encode(body)).items()):
                raise UsageError("usage", f"the request id {request_id} is in use already", note="nothing was asked")
        return path

    def answer(self, request_id: str, body: Mapping[str, Any]) -> bool:
        """Answer. False when somebody was first: then theirs counts. Raises TeamRefused when nobody asked that."""
        path = self._path(request_id)
        if self.get(request_id) is None:
            raise TeamRefused(
                "team-refused", f"there is no open request {request_id[:80]!r}", note="nothing was answered"
            )
        return write_new(_answer_path(path), _encode({"id": request_id, "v": VERSION} | dict(body)))

    def get(self, request_id: str) -> dict[str, Any] | None:
        """The request; None when there is none, or when its file was damaged and is set aside now."""
        return _load(self._path(request_id))

    def answer_of(self, request_id: str) -> dict[str, Any] | None:
        """The answer; None while there is none."""
        return _load(_answer_path(self._path(request_id)))

    def open_requests(self) -> list[dict[str, Any]]:
        """All requests without an answer, the oldest first."""
        names = self._names()
        asked = [name for name in names if not name.endswith(f"{_ANSWER}.json")]
        bodies = [_load(self.directory / n) for n in asked if f"{n.removesuffix('.json')}{_ANSWER}.json" not in names]
        return sorted((body for body in bodies if body is not None), key=_opened_at)

    def answered(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """All requests that have an answer, each with it; those that were retired are left out."""
        names = self._names()
        asked = [n for n in names if f"{n.removesuffix('.json')}{_ANSWER}.json" in names]
        pairs = [(_load(self.directory / n), _load(_answer_path(self.directory / n))) for n in sorted(asked)]
        return [(body, answer) for body, answer in pairs if body is not None and answer is not None]

    def retire(self, request_id: str) -> None:
        """Move a request that is over, with its answer, to `answered/`: open ones are found among few files."""
        path = self._path(request_id)
        done = self.directory / "answered"
        try:
            done.mkdir(mode=0o700, parents=True, exist_ok=True)
            for file in (path, _answer_path(path)):
                if file.exists():
                    os.rename(file, done / file.name)
        except OSError as problem:
            raise storage_error(problem, path) from problem

    def _names(self) -> set[str]:
        try:
            with os.scandir(self.directory) as entries:
                return {entry.name for entry in entries if entry.name.endswith(".json")}
        except FileNotFoundError:
            return set()

    def _path(self, request_id: str) -> Path:
        return self.directory / f"{file_stem(request_id)}.json"


def file_stem(request_id: str) -> str:
    """A request's id as a file's name: percent-encoded outside `[A-Za-z0-9._@-]`. Raises InvalidName.

    A leading dot, and the dot of an ending `.answer`, are encoded too: no id hides, none is another's answer.
    """
    text = _ODD.sub(lambda odd: b"%%%02X" % odd[0][0], request_id.encode("utf-8", "replace")).decode()
    text = _AMBIGUOUS.sub("%2E", text)
    if not text or len(text) > _LONGEST_NAME:
        raise InvalidName("bad-name", f"{request_id[:80]!r} cannot be a request's id", note="nothing was touched")
    return text


def request_id_of(stem: str) -> str:
    """The id whose file has this stem."""
    return unquote(stem)


def _answer_path(path: Path) -> Path:
    return path.with_name(f"{path.name.removesuffix('.json')}{_ANSWER}.json")


def _encode(body: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(body), ensure_ascii=False, indent=2).encode("utf-8", "replace")


def _opened_at(body: Mapping[str, Any]) -> float:
    moment = body.get("opened_at")
    return float(moment) if isinstance(moment, int | float) else 0.0


def _load(path: Path) -> dict[str, Any] | None:
    """The object in the file. One that is none is copied aside and removed: nobody could ever answer it."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise storage_error(problem, path) from problem
    try:
        value: object = json.loads(content)
    except ValueError:
        value = None
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    set_aside(path, content)
    path.unlink(missing_ok=True)
    return None
