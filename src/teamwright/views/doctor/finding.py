"""The subject of `doctor` and one line of its findings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from teamwright.protocol.values import dataclass
from teamwright.storage.paths import Home

Verdict: TypeAlias = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: its section, the subject, the value, and the advice."""

    section: str
    label: str
    value: str
    verdict: Verdict = "ok"
    do: str = ""


@dataclass(frozen=True, slots=True)
class DoctorSubject:
    """The subject of `doctor`. `model` is the value of `--model`; `env` is the environment.

    `at_terminal` is True when a person uses Teamwright at a terminal.
    """

    home: Home
    cwd: Path
    env: Mapping[str, str]
    model: str | None = None
    settings_file: Path | None = None
    at_terminal: bool = False
