"""The choice of backends for members: by the settings, or by what this machine has.

Looks for programs when it is asked, and creates a backend when it is first chosen. Depends on settings and backends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from teamwright.backends.adapter_backend import AdapterBackend, unusable_reason
from teamwright.backends.choice import (
    AUTO,
    EXPLICIT_REASON,
    TMUX,
    BackendEnvironment,
    SelectedBackend,
    choose_backend,
    is_remote,
)
from teamwright.backends.detached import DetachedBackend
from teamwright.backends.settings import BackendSettings
from teamwright.backends.terminal_adapter import DETACHED, TerminalAdapter, shipped_adapters
from teamwright.backends.tmux import TmuxBackend, TmuxSettings
from teamwright.backends.tmux_server import TmuxProgram, find_tmux
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.members import IN_PROCESS
from teamwright.teams.backend import Backend, Location


class BackendChoice:
    """The backends of one session.

    Parameters: `environ`, the lead's environment; `at_terminal`, True when a person uses Teamwright at a terminal;
    `logs`, the directory for the output of members without a terminal; `make_remote`, which returns the backend for a
    label of workers, for a team in a database.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        settings: BackendSettings,
        *,
        logs: Path,
        at_terminal: bool = False,
        make_remote: Callable[[str], Backend] | None = None,
    ) -> None:
        self.settings = settings
        self.choice: SelectedBackend | None = None
        """The last choice, with its reason."""
        self._environ = environ
        self._at_terminal = at_terminal
        self._logs = logs
        self._make_remote = make_remote
        self._backends: dict[str, Backend] = {}
        self._found: TmuxProgram | None = None
        self._looking = asyncio.Lock()

    @property
    def choice_reason(self) -> str:
        """The reason of the last choice, a clause; empty before the first."""
        return self.choice.reason if self.choice is not None else ""

    @property
    def grace_s(self) -> float:
        """The seconds that a member's process stays without its lead."""
        return self.settings.orphan_timeout_s

    @cached_property
    def adapters(self) -> Mapping[str, TerminalAdapter]:
        """All terminal adapters by name; the user's own replace shipped ones of the same name."""
        return {**shipped_adapters(), **self.settings.adapters}

    async def choose(self, requested: str = "") -> tuple[str, Backend] | None:
        """Return the backend for a member, by request or settings, with its name; None: in the lead's process.

        Raises UsageError for an unknown name, CannotStart for a backend that cannot be used here.
        """
        self.choice = await self.preview(requested)
        if self.choice.backend == IN_PROCESS:
            return None
        return self.choice.backend, self._place(self.choice.backend)

    async def preview(self, requested: str = "") -> SelectedBackend:
        """Return the choice without creating a backend."""
        setting = requested or self.settings.backend
        if is_remote(setting):
            return SelectedBackend(self._require_remote(setting), EXPLICIT_REASON)
        if setting == AUTO:  # only the automatic choice depends on tmux
            first = choose_backend(AUTO, BackendEnvironment(self._environ, self._at_terminal))
            if first.backend == IN_PROCESS:
                return first
        no_tmux = (await self.tmux()).problem if setting in {AUTO, TMUX} else ""
        adapters = {name: unusable_reason(adapter, self._environ) for name, adapter in self.adapters.items()}
        found = BackendEnvironment(self._environ, self._at_terminal, no_tmux, {DETACHED: "", **adapters})
        return choose_backend(setting, found)

    async def backend_for(self, location: Location) -> Backend | None:
        """Return the backend of that location, to probe or close what it started; None when it is not configured."""
        if is_remote(location.kind):
            return None if self._make_remote is None else self._place(location.kind)
        if location.kind == TMUX:
            return None if (await self.tmux()).problem else self._place(TMUX)
        return self._place(location.kind) if location.kind == DETACHED or location.kind in self.adapters else None

    async def tmux(self) -> TmuxProgram:
        """Return the tmux of this machine, looked up once."""
        async with self._looking:
            if self._found is None:
                self._found = await find_tmux(self._environ)
        return self._found

    def _place(self, kind: str) -> Backend:
        if kind not in self._backends:
            self._backends[kind] = self._new(kind)
        return self._backends[kind]

    def _require_remote(self, setting: str) -> str:
        """Return the name of a remote backend. Raises CannotStart (`backend`) for a team on files."""
        if self._make_remote is None:
            raise CannotStart(
                "backend",
                "members on other machines need a team in a database",
                do=["teamwright --database postgresql://HOST/NAME", "leave isolation out: the member runs here"],
                note="nothing was started",
            )
        return setting

    def _new(self, kind: str) -> Backend:
        if self._make_remote is not None and is_remote(kind):
            return self._make_remote(kind.partition(":")[2])
        if kind == DETACHED:
            return DetachedBackend(self._logs)
        if kind != TMUX:
            return AdapterBackend(self.adapters[kind], self._environ)
        settings = self.settings
        look = TmuxSettings(layout=settings.layout, lead_percent=round(settings.lead_share * 100))
        return TmuxBackend(self._found.program if self._found is not None else TMUX, self._environ, look)
