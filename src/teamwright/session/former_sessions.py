"""Former sessions of a team: processes that their commands left running, and lost background jobs.

A session that a process runs again is left alone. Depends on team files, leases and background jobs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from teamwright.agent.background_jobs import BackgroundJobs, Job
from teamwright.protocol.runtime_tags import TaskEnd
from teamwright.storage.file_lease import lease_held, lease_path
from teamwright.storage.paths import Home
from teamwright.team_records.file_stores import FileStores
from teamwright.teams.job_notices import notify_lost
from teamwright.teams.team import SessionTeam


class FormerSessions(Struct, frozen=True):
    """The background jobs of former sessions of one team, one entry a session; `places` are their directories."""

    jobs: Sequence[BackgroundJobs]
    places: Sequence[Path] = ()

    @classmethod
    def of_team(cls, home: Home, directory: str, own: Path) -> FormerSessions:
        """Return the former sessions of the team in `directory`; `own` is the directory of the session that takes it
        over.

        Must be called before that session leads the team. Raises StorageError.
        """
        file = FileStores(home).read_state(directory)
        if file is None:
            return cls(())
        places = {Path(incarnation.transcript).parent.parent for incarnation in file.incarnation_records.values()}
        places |= {Path(file.lead.lease).parent} if file.lead.lease else set()
        dead = [p for p in sorted(places - {own}) if p.is_dir() and not lease_held(lease_path(p))]
        return cls([BackgroundJobs(session=place) for place in dead], dead)

    async def end(self) -> None:
        """End the processes that they left running, before members are resumed. Takes a few seconds at most."""
        for jobs in self.jobs:
            jobs.start_orphan_cleanup()
        await asyncio.gather(*(jobs.wait_for_orphan_cleanup() for jobs in self.jobs))

    def notify_owners(self, team: SessionTeam, end: Callable[[Job], TaskEnd]) -> None:
        """Notify members of the jobs that they lost. Jobs of a former lead are not reported."""
        for jobs in self.jobs:
            notify_lost(jobs, team, None, end)

    async def close(self) -> None:
        """Stop recording."""
        for jobs in self.jobs:
            await jobs.close()
