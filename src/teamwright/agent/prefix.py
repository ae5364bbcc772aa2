"""Prefixes on disk: stored once by content hash, named in a transcript's first line, sent byte for byte.

A resumed conversation gets the very bytes that it was born with, also from a newer version of this program.
Format: docs/formats/prefix.md. Knows the value (`models.model.Prefix`) and `storage`; does not know what is in it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from teamwright.agent.conversation import Conversation
from teamwright.agent.transcript import read_history
from teamwright.models.model import Prefix
from teamwright.protocol.blocks import encode
from teamwright.protocol.errors import StorageError
from teamwright.storage.atomic import write_new
from teamwright.storage.jsonl import Journal

SCHEMA = 1


def store_prefix(directory: Path, prefix: Prefix) -> None:
    """Keep the prefix as `<digest>.json` in the directory; one that is there already is left alone."""
    body = {"v": SCHEMA, "model": prefix.model, "betas": list(prefix.betas), "head": prefix.head.decode()}
    path = directory / f"{prefix.digest}.json"
    if not path.exists():
        write_new(path, encode(body))


def load_conversation(path: Path, prefixes: Path) -> Conversation:
    """The conversation in this transcript, with the prefix that its first line names, or its last compaction.

    Raises StorageError.
    """
    history = read_history(path)
    prefix = load_prefix(prefixes, history.prefix)
    return Conversation.of(path, prefix, Journal.open(path), history)


def load_prefix(directory: Path, digest: str) -> Prefix:
    """The prefix of that digest. Raises StorageError when it is gone, damaged, or not what its name says."""
    path = directory / f"{digest}.json"
    try:
        body = cast("dict[str, Any]", json.loads(path.read_bytes()))
        prefix = Prefix.sealed(body["model"], body["head"].encode(), body["betas"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise StorageError("damaged-file", f"the prefix {path} cannot be read") from problem
    if prefix.digest != digest:
        raise StorageError("damaged-file", f"the prefix {path} is not what its name says")
    return prefix
