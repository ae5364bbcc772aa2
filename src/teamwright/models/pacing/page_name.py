"""Under which name a credential's page lies: a keyed hash, whose key never leaves the directory.

Below: `storage`. Opens no page.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from teamwright.models.endpoint import Endpoint
from teamwright.protocol.errors import StorageError
from teamwright.storage.atomic import write_atomic, write_new
from teamwright.storage.paths import make_private

KEY = "key"
"""The file with the key of the hashes: 32 random bytes, made once."""
_KEY_BYTES = 32


def page_of(directory: Path | None, endpoint: Endpoint) -> Path | None:
    """The file of this credential in the directory; None where there is none, or it cannot be written."""
    if directory is None:
        return None
    try:
        make_private(directory)
        return directory / endpoint.keyed_fingerprint(_key(directory / KEY))
    except (OSError, StorageError):
        return None


def _key(path: Path) -> bytes:
    """The key; of several processes that make it together one does."""
    if not path.exists():
        write_new(path, secrets.token_bytes(_KEY_BYTES))
    key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        key = secrets.token_bytes(_KEY_BYTES)
        write_atomic(path, key)
    return key
