"""Detection and masking of secrets: names of variables that contain one, formats of tokens, fields of values.

Works on texts and structs.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import lru_cache
from urllib.parse import quote

from msgspec import Struct

MIN_FRAGMENT = 8
"""The least number of characters of a piece of a secret that is masked."""

_SECRET_NAME = re.compile(
    r"""
    TOKEN(?!I[SZ]) | SECRET | PASSWORD | PASSWD | PASSPHRASE | CREDENTIAL | (?:API|ACCESS|PRIVATE|AUTH)KEYS?(?:_|$)
    | (?:^|_)(?:KEYS?|AUTH|CREDS|PASS|PAT)(?:_|$)
    | ^(?:MYSQL_PWD|SSHPASS)$
    """,
    re.IGNORECASE | re.VERBOSE,
)
_TOKEN = re.compile(
    r"""
    (?:sk|pk|rk|ak)[-_](?=[-\w]*\d)[-\w]{12,}                              # model services, Stripe
    | (?:gh[oprsu]_|github_pat_|glpat-|gldt-|glrt-)[-\w]{12,}              # GitHub, GitLab
    | (?:xox[a-z]|xapp)-[-\w]{10,}                                         # Slack
    | (?:AKIA|ASIA)[A-Z0-9]{16}                                            # AWS
    | AIza[-\w]{30,} | ya29\.[-\w.]{12,}                                   # Google
    | (?:hf|gsk|npm|r8|lin_api|dckr_pat|dop_v1|shpat|whsec)_[-\w]{16,}     # other services
    | (?:pypi|xai|nvapi|tskey|ATATT)-?[-\w=]{16,} | hvs\.[-\w]{16,} | SG\.[-\w]{10,}\.[-\w]{10,}
    | eyJ[-\w]{10,}\.[-\w]{6,}\.[-\w]*                                     # JSON Web Token
    """,
    re.VERBOSE,
)
_TOKEN_IN_TEXT = re.compile(
    rf"""
    (?<![-\w])(?:{_TOKEN.pattern}) | (?<=Bearer\ )\S{{8,}}
    | \b(?:(?:sk|pk|gsk|xai|hf)[-_]|gh[oprsu]_|github_pat_|xox[abp]-|AKIA|AIza)[-*\w]{{12,}}  # also with stars inside
    """,
    re.VERBOSE,
)
_KEY = re.compile(rf"(?<![-\w])(?:{_TOKEN.pattern})", re.VERBOSE)
_RANDOM = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{10,}")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_NO_SECRET = re.compile(r"(?:|true|false|yes|no|on|off|none|auto|\d{1,3})", re.IGNORECASE)


def mask(secret: str) -> str:
    """Return a secret as it may be shown: its last four characters, or none of a short one."""
    return f"…{secret[-4:]}" if len(secret) >= 12 else "…"


def mask_tokens(text: str) -> str:
    """Return the text with everything masked that has the format of a known token."""
    return _TOKEN_IN_TEXT.sub(lambda found: mask(found[0]), text)


def mask_keys(text: str) -> str:
    """Return the text with the keys of known services masked, and nothing else: a name such as `pk_orders_2024`
    stays.
    """
    return _KEY.sub(lambda found: mask(found[0]) if _RANDOM.search(found[0]) else found[0], text)


def mask_values(text: str, secrets: Iterable[str], replacement: str = "") -> str:
    """Return the text with these secrets masked, plain and encoded, the longest first. None of them is empty.

    `replacement` replaces each; without it a long plain secret keeps its last characters.
    """
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, replacement or mask(secret))
        for form in encoded_forms(secret):
            text = text.replace(form, replacement or "…")
    return text


def find_secrets(variables: Mapping[str, str]) -> frozenset[str]:
    """Return the values of the variables that probably contain a credential and are long enough to differ from other
    words."""
    return frozenset(
        value for name, value in variables.items() if len(value) >= MIN_FRAGMENT and holds_secret(name, value)
    )


def mask_fragments(text: str, secret: str) -> str:
    """Return the text without the secret and without pieces of it that have at least `MIN_FRAGMENT` characters."""
    text = text.replace(secret, mask(secret)) if secret else text
    if len(secret) < MIN_FRAGMENT:
        return text
    pieces = {secret[at : at + MIN_FRAGMENT] for at in range(len(secret) - MIN_FRAGMENT + 1)}
    out: list[str] = []
    next_start = 0
    end = 0
    for at in range(len(text) - MIN_FRAGMENT + 1):
        if text[at : at + MIN_FRAGMENT] not in pieces:
            continue
        if at > end or not out:
            out += (text[next_start:at], "…")
        end = next_start = at + MIN_FRAGMENT
    return "".join((*out, text[next_start:]))


@lru_cache(maxsize=64)  # a terminal masks each line that it draws
def encoded_forms(secret: str) -> tuple[str, ...]:
    """Return the forms in which another program may write a secret, the longest first: base64, hex, percent-encoded and
    reversed.

    A secret has three forms in base64, by its place in the encoded text. Their first and last characters depend on the
    text around it and are left out.
    """
    content = secret.encode("utf-8", "surrogatepass")
    digits = content.hex()
    every = re.sub("..", r"%\g<0>", digits)
    some = quote(content, safe="")
    forms = {secret[::-1], digits, digits.upper(), every, every.upper()}
    forms |= {some, re.sub("%..", lambda code: code[0].lower(), some)}
    for before in range(3):
        first = -(-before * 8 // 6)
        last = (before + len(content)) * 8 // 6
        encoded = b64encode(bytes(before) + content).decode()[first:last]
        forms |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return tuple(sorted(forms - {secret}, key=len, reverse=True))


def is_secret_name(name: str) -> bool:
    """Return True when a variable of this name probably contains a credential."""
    return _SECRET_NAME.search(name) is not None


def holds_secret(name: str, value: str) -> bool:
    """Return True when a variable probably contains a credential: by its name and value, or by the format of its value
    alone.

    A number of tokens, a switch, and the path of a file or socket are none.
    """
    bare = value.strip().removeprefix("Bearer ").removeprefix("token ")
    if _TOKEN.fullmatch(bare) or _PRIVATE_KEY.search(value):
        return True
    if not is_secret_name(name) or name.startswith("GIT_CONFIG_KEY_") or _NO_SECRET.fullmatch(bare):
        return False
    if name.upper().endswith("TOKENS") and bare.isdigit():
        return False
    return not (value.startswith("/") and name.upper().endswith(("_FILE", "_PATH", "_DIR", "_SOCK", "_SOCKET")))


def repr_without(value: Struct, *hidden: str) -> str:
    """Return the usual representation of a value, without the hidden fields."""
    visible = ", ".join(f"{name}={getattr(value, name)!r}" for name in value.__struct_fields__ if name not in hidden)
    return f"{type(value).__name__}({visible})"
