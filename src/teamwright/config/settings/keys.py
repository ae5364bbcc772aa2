"""The table of settings, read off the fields of `Settings` and `ModelSettings`: the key, type and field of each.

The documentation, the JSON Schema and all readers and writers of settings files use this table.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from teamwright.protocol.setting_types import Setting


class SettingKey(Struct, frozen=True):
    """A setting: its declaration, the type of its value in a file, and its default."""

    declared: Setting
    value_type: Any
    default: Any
    """None when there is none, or it cannot be written."""

    @property
    def meaning(self) -> str:
        """A sentence about it."""
        return self.declared.meaning

    @property
    def user_only(self) -> bool:
        """True when only a person's own files may set it."""
        return self.declared.user_only

    @property
    def words(self) -> tuple[str, ...]:
        """The only texts that it may be; empty for other settings."""
        plain = _plain(self.value_type)
        if isinstance(plain, type) and issubclass(plain, Enum):
            return tuple(str(member.value) for member in plain)
        return get_args(plain) if get_origin(plain) is Literal else ()

    @property
    def expected(self) -> str:
        """The required type of a value, in words."""
        if self.words:
            return join_words(self.words)
        return self._about("expected") + (", or null" if type(None) in get_args(self.value_type) else "")

    @property
    def sample(self) -> str:
        """A value for an example."""
        return self.words[0] if self.words else self._about("sample")

    @property
    def adds_up(self) -> bool:
        """True for a list: the lists of all files are joined."""
        return get_origin(_plain(self.value_type)) is Sequence

    @property
    def is_switch(self) -> bool:
        """True when it is true or false."""
        return _plain(self.value_type) is bool

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a value."""
        return {"enum": list(self.words)} if self.words else msgspec.json.schema(self.value_type)

    def fits(self, value: Any) -> bool:
        """Return True when the setting may have this value."""
        if (fits := self._about("fits")) is not None:
            return fits(value)
        try:
            msgspec.convert(value, self.value_type)
        except msgspec.ValidationError:
            return False
        return True

    def _about(self, name: str) -> Any:
        inner = [part for part in get_args(self.value_type) if get_origin(part) is Annotated]
        found = (one.extra[name] for one in _metas(self.value_type, *inner) if one.extra and name in one.extra)
        return next(found, None)


def _metas(*kinds: Any) -> Iterator[Meta]:
    return (one for kind in kinds for one in getattr(kind, "__metadata__", ()) if isinstance(one, Meta))


def _plain(kind: Any) -> Any:
    return kind.__origin__ if get_origin(kind) is Annotated else kind


def join_words(words: Sequence[str]) -> str:
    """Return the words as a list for people: `a`, `a or b`, `a, b or c`."""
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


class _Place(Struct, frozen=True):
    """The field that declares a setting, in a section with the defaults. `is_shared`: it declares several."""

    section: Struct
    field: str
    is_shared: bool


class SettingKeys(Mapping[str, SettingKey]):
    """Every setting by its key. A declaration is evaluated when it is first used: for all of them it takes 2 ms."""

    def __init__(self, *roots: Struct) -> None:
        self._places = {name: place for root in roots for name, place in _places(root)}
        self._found: dict[str, SettingKey] = {}

    def __getitem__(self, name: str) -> SettingKey:
        if name not in self._found:
            self._found[name] = _evaluate(name, self._places[name])
        return self._found[name]

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def section_of(self, name: str) -> type[Struct]:
        """Return the class whose field declares the setting."""
        return type(self._places[name].section)

    def field_of(self, name: str) -> str:
        """Return the field that the setting alone sets; empty if several settings set it."""
        place = self._places[name]
        return "" if place.is_shared else place.field


_DECLARED = re.compile(r"\bSetting\('([\w.]+)'")


def _places(section: Struct) -> Iterator[tuple[str, _Place]]:
    """Yield the settings of a section and of the sections in it, in the order of the fields."""
    for field, text in type(section).__annotations__.items():
        if names := _DECLARED.findall(text):
            yield from ((name, _Place(section, field, len(names) > 1)) for name in names)
        elif isinstance(below := getattr(section, field), Struct):
            yield from _places(below)


def _evaluate(name: str, place: _Place) -> SettingKey:
    kind = type(place.section)
    # The other annotations of the class name types that are imported for the type checker alone.
    hint: Any = eval(kind.__annotations__[place.field], vars(sys.modules[kind.__module__]))
    if get_origin(hint) in {Union, UnionType}:  # `Annotated[…] | None`: no file may say null
        [hint] = (part for part in get_args(hint) if get_origin(part) is Annotated)
    [declared] = (one for one in hint.__metadata__ if isinstance(one, Setting) and one.key == name)
    about = [one for one in hint.__metadata__ if not isinstance(one, Setting)]
    value_type = declared.value_type or (Annotated[(hint.__origin__, *about)] if about else hint.__origin__)
    default: Any = getattr(place.section, place.field)
    if isinstance(default, str):
        default = str(default) or None
    elif not isinstance(default, bool | int | float):
        default = None
    return SettingKey(declared, value_type, default)


@cache
def setting_keys() -> SettingKeys:
    """Return every setting by the key that it has in a file (a dot is a level of JSON)."""
    # Only a command that reads settings pays for the packages whose classes declare them.
    from teamwright.config.settings.settings import Settings
    from teamwright.models.model_settings import ModelSettings

    return SettingKeys(ModelSettings(), Settings())


@cache
def key_groups() -> frozenset[str]:
    """Return the names of the objects in a settings file that contain settings."""
    return frozenset(name[:at] for name in setting_keys() for at, char in enumerate(name) if char == ".")


Section = TypeVar("Section")


def fill(section: Section, values: Mapping[str, Any]) -> Section:
    """Return a section of the settings with the fields that these values set. Fields of several settings are left."""
    keys = setting_keys()
    own = {name: value for name, value in values.items() if keys.section_of(name) is type(section)}
    changes = {field: value for name, value in own.items() if (field := keys.field_of(name))}
    filled: Section = replace(cast("Any", section), **changes)
    return filled


RENAMED_KEYS = {
    "assistant": "agents.background",
    "goodbye_s": "shutdown_timeout_s",
    "headless_asks": "unattended_requests",
    "members.grace_s": "members.orphan_timeout_s",
    "members.recipes": "members.adapters",
    "stagger_s": "cache_warmup_s",
}
"""The name of a setting by its earlier name. A file may still use the earlier one; a warning names the new one."""

RENAMED_VALUES: dict[str, dict[bool, Any]] = {"assistant": {True: "always", False: True}}
"""The value of the new setting for a value of the earlier one, where they differ."""

NOT_USED_YET = frozenset(
    {
        *("enabledPlugins", "extraKnownMarketplaces", "cleanupPeriodDays"),
        *("permissions.disableBypassPermissionsMode", "alwaysThinkingEnabled", "includeCoAuthoredBy"),
    }
)
NEVER_USED = frozenset(
    {"apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "otelHeadersHelper", "forceLoginMethod"}
)
MODE = "permissions.defaultMode"
