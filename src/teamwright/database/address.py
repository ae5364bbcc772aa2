"""The address of a database: a PostgreSQL URL, and the schema that contains the team space.

Depends on the errors alone. A password is never part of an address: the driver reads it from its usual places.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from teamwright.protocol.errors import UsageError

DATABASE_VARIABLE = "TEAMWRIGHT_DATABASE"
"""The environment variable with the address, where no flag and no setting names one."""

SECRET_VARIABLES = (
    *(DATABASE_VARIABLE, "PGPASSWORD", "PGPASSFILE", "PGSERVICEFILE", "PGSERVICE", "PGUSER", "PGHOST", "PGHOSTADDR"),
    *("PGPORT", "PGDATABASE", "PGSSLKEY", "PGSSLCERT", "PGSSLPASSWORD"),
)
"""Variables that lead to the database: commands of agents do not get them."""

_SCHEMES = ("postgresql", "postgres")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_EXAMPLE = "postgresql://HOST/NAME, postgresql://USER@HOST:5432/NAME?schema=SCHEMA"


class DatabaseAddress(Struct, frozen=True):
    """An address. `url` is what the driver gets; an empty `schema` is `teamwright_<user of the database>`."""

    url: str
    schema: str = ""

    def __str__(self) -> str:
        """Return the address as a person wrote it."""
        if not self.schema:
            return self.url
        return f"{self.url}{'&' if '?' in self.url else '?'}schema={self.schema}"


def parse_address(text: str) -> DatabaseAddress:
    """Return the address in a URL. Raises UsageError for another scheme, a password and a bad schema name."""
    try:
        parts = urlsplit(text.strip())
        has_password = parts.password is not None
    except ValueError as problem:
        raise _bad_address(f"it is no URL: {problem}") from problem
    if parts.scheme not in _SCHEMES:
        raise _bad_address("it does not begin with postgresql://")
    options = parse_qsl(parts.query, keep_blank_values=True)
    if has_password or any(name == "password" for name, _ in options):
        raise UsageError(
            "usage",
            "the address of the database contains a password, which other users of the machine could read",
            do=["leave it out, and put it into ~/.pgpass (mode 0600), or into PGPASSWORD"],
            note="nothing was started",
        )
    schemas = [value for name, value in options if name == "schema"]
    if any(not _SCHEMA.fullmatch(one) or one.startswith("pg_") for one in schemas) or len(schemas) > 1:
        raise _bad_address("its schema is not a plain name in lower case")
    rest = urlencode([(name, value) for name, value in options if name != "schema"])
    return DatabaseAddress(urlunsplit(parts._replace(query=rest)), schemas[0] if schemas else "")


def _bad_address(why: str) -> UsageError:
    return UsageError(
        "usage", f"the address of the database cannot be used: {why}", do=[f"give {_EXAMPLE}"], note="nothing was done"
    )
