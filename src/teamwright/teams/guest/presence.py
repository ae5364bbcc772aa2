"""Whether a lead that another program is still is there: its process where its files name one, else that it reads mail.

Signs, the surest first: the team's files are gone; the process that the roster names (newer format), or that the tmux
server is named after, has ended; mail to the lead lies unread for ten graces. Knows signs; ends nobody.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from teamwright.mail.inbox import peek
from teamwright.protocol.errors import StorageError
from teamwright.protocol.roster import TeamConfig
from teamwright.storage.processes.lives import Life

UNREAD_GRACES = 10
"""A lead without a process to ask counts as gone once mail lay unread for so many graces."""

_SERVER = re.compile(r"claude-swarm-(\d+)")


def server_of(env: Mapping[str, str]) -> int:
    """The lead's process by the name of the tmux server that this one runs on (as observed); 0 where it says none."""
    found = _SERVER.fullmatch(Path(env.get("TMUX", "").partition(",")[0]).name)
    return int(found[1]) if found is not None else 0


def lead_process(config: TeamConfig, env: Mapping[str, str]) -> Life | None:
    """The lead's process, by the roster or by the tmux server; None where neither names one that runs here.

    Ask before the member is on the roster: a lead that ends from then on is seen to end.
    """
    return Life.of(_pid_of(config)) or Life.of(server_of(env))


def _pid_of(config: TeamConfig) -> int:
    process = config.extra.get("leadProcess")
    pid = cast("dict[str, Any]", process).get("pid") if isinstance(process, dict) else None
    return pid if isinstance(pid, int) else 0


class Presence:
    """Follows one lead. `gone` is called once, with the reason. `life` is its process, if the start names one.

    `grace_s`: how long a lead whose process ended is waited for; another one may go on with the team.
    """

    def __init__(self, inbox: Path, grace_s: float, gone: Callable[[str], None], life: Life | None = None) -> None:
        self._inbox, self._grace_s, self._gone = inbox, grace_s, gone
        self._pid = 0
        self._life: Life | None = None
        self._stop: Callable[[], object] = _nothing
        self._ending: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        if life is not None:
            self._follow(life)

    def noticed(self, config: TeamConfig | None) -> None:
        """The roster as it is now; None: the team's files are gone."""
        if config is None:
            self._over("its team was removed")
            return
        pid = _pid_of(config)
        if pid != self._pid and (life := Life.of(pid)) is not None:
            self._follow(life)  # a number without a process says nothing: it may be of another machine or namespace

    def told(self, msg_id: str) -> None:
        """The lead was written to, and nothing else is to be done: it reads that while it is there."""
        if self._unread is not None:
            self._unread.cancel()
        loop = asyncio.get_running_loop()
        self._unread = loop.call_later(UNREAD_GRACES * self._grace_s, self._look_unread, msg_id)

    def at_work(self) -> None:
        """There is something to do: no mail is waited for."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def close(self) -> None:
        """Follow nobody any more."""
        self._stop()
        self.at_work()
        if self._ending is not None:
            self._ending.cancel()
        if self._life is not None:
            self._life.close()
            self._life = None

    def _follow(self, life: Life) -> None:
        self._stop()
        if self._life is not None:
            self._life.close()
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        self._pid, self._life = life.pid, life
        self._stop = life.on_end(self._ended)

    def _ended(self) -> None:
        self._stop = _nothing
        what = f"its lead was gone for {self._grace_s:g} s: process {self._pid} has ended"
        self._ending = asyncio.get_running_loop().call_later(self._grace_s, self._over, what)

    def _look_unread(self, msg_id: str) -> None:
        self._unread = None
        if self._life is not None and self._life.alive:
            return
        with suppress(StorageError):
            if any(one.msg_id == msg_id and not one.read for one in peek(self._inbox)):
                self._over(f"its lead read no mail for {UNREAD_GRACES * self._grace_s:g} s")

    def _over(self, why: str) -> None:
        gone, self._gone = self._gone, _nobody
        gone(why)


def _nothing() -> None:
    """Nothing is followed."""


def _nobody(_why: str) -> None:
    """It was said."""
