"""The declaration of a setting at the field that it sets, and the types of its value in a file.

A field is declared as `Annotated[TYPE, Setting(KEY, MEANING)]`, and its default is that of the setting. The table of
keys (`config.settings.keys`), the documentation, the JSON Schema and completion are derived from that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct


class Setting(Struct, frozen=True):
    """A setting of settings files: its key there (a dot is a level of JSON), and a sentence about it.

    `value_type` is the type in a file if the field has another one: a merge makes the field of it. `user_only`: only a
    person's own files may set it. `narrows`: a repository may set it without trust.
    """

    key: str
    meaning: str
    value_type: Any = None
    user_only: bool = False
    narrows: bool = False


# `expected` is what an error says, `sample` the value in its command.
Switch: TypeAlias = Annotated[bool, Meta(extra={"expected": "true or false", "sample": "true"})]
Count: TypeAlias = Annotated[int, Meta(ge=0, extra={"expected": "a whole number from 0 on", "sample": "3"})]
Positive: TypeAlias = Annotated[int, Meta(ge=1, extra={"expected": "a whole number above 0", "sample": "3"})]
Amount: TypeAlias = Annotated[float, Meta(gt=0, lt=10_000_000, extra={"expected": "a number above 0", "sample": "1.5"})]
Seconds: TypeAlias = Annotated[
    float, Meta(gt=0, lt=10_000_000, extra={"expected": "a number of seconds above 0", "sample": "30"})
]
Share: TypeAlias = Annotated[
    float, Meta(ge=0.1, le=0.95, extra={"expected": "a number from 0.1 to 0.95", "sample": "0.8"})
]
Text: TypeAlias = Annotated[str, Meta(extra={"expected": "a text", "sample": "TEXT"})]
Texts: TypeAlias = Annotated[
    Sequence[str], Meta(extra={"expected": "a list of texts", "sample": """'["Bash(git log:*)"]'"""})
]
Variables: TypeAlias = Annotated[
    Mapping[str, str], Meta(extra={"expected": "an object with texts", "sample": """'{"NAME": "value"}'"""})
]
Table: TypeAlias = Annotated[Mapping[str, Any], Meta(extra={"expected": "an object", "sample": """'{"name": {}}'"""})]
