"""What `doctor` looks at, and one line of what it finds. Values; knows nobody who looks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home

Verdict: TypeAlias = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: where it belongs, what was looked at, what was found, what to do about it."""

    section: str
    label: str
    value: str
    verdict: Verdict = "ok"
    do: str = ""


@dataclass(frozen=True, slots=True)
class DoctorSubject:
    """What is looked at. `model` is what `--model` would name; `env` is the environment.

    `at_terminal` says whether a person sits at a terminal of ours.
    """

    home: Home
    cwd: Path
    env: Mapping[str, str]
    model: str | None = None
    settings_file: Path | None = None
    at_terminal: bool = False
