"""The input of Bash, with what was found out about its command before it runs.

Depends on the contract of tools alone.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field, PrivateAttr

from teamwright.agent.tool_input import ToolInput
from teamwright.sandbox.named_hosts import Destination


class BashInput(ToolInput):
    """Parameters of Bash."""

    command: str = Field(description="Shell command.")
    timeout: int | None = Field(None, gt=0, description="Time limit in milliseconds, at most 600000.")
    description: str = Field("", description="Purpose in 5 to 10 words.")
    run_in_background: bool = Field(False, description="Immediate return, and a notice at the end.")
    _checked_cwd: Path | None = PrivateAttr(default=None)
    _checked_real_path: str = PrivateAttr(default="")
    _checked_expansion: str = PrivateAttr(default="")
    _checked_path: str = PrivateAttr(default="")
    _by_person: bool = PrivateAttr(default=False)
    _hosts: tuple[Destination, ...] | None = PrivateAttr(default=None)

    @property
    def checked_directory(self) -> Path:
        """The directory that `access` checked; the root before that."""
        return self._checked_cwd or Path(os.sep)

    @property
    def is_typed_by_person(self) -> bool:
        """True when a person typed the command. It then lacks the variable that marks agents' commands."""
        return self._by_person

    def mark_typed_by_person(self) -> BashInput:
        """Note that a person typed the command."""
        self._by_person = True
        return self

    @property
    def hosts(self) -> tuple[Destination, ...] | None:
        """The hosts that the command names in the sandbox; None while they are not known."""
        return self._hosts

    def note_hosts(self, hosts: tuple[Destination, ...]) -> None:
        """Note the hosts that the command names."""
        self._hosts = hosts

    def note_checked(self, cwd: Path, expansion: str = "", search_path: str = "") -> None:
        """Note for what the verdict is made: the directory, the command with its aliases expanded, and the PATH."""
        self._checked_cwd, self._checked_real_path = cwd, os.path.realpath(cwd)
        self._checked_expansion, self._checked_path = expansion, search_path

    def is_checked_in(self, cwd: Path) -> bool:
        """Return True when the verdict was made for this directory, or when there was none."""
        return self._checked_cwd is None or (
            self._checked_cwd == cwd and self._checked_real_path == os.path.realpath(cwd)
        )

    def is_checked_with(self, expansion: str, search_path: str) -> bool:
        """Return True when the verdict was made for this expansion and this PATH, or when there was none."""
        return self._checked_cwd is None or (self._checked_expansion, self._checked_path) == (expansion, search_path)
