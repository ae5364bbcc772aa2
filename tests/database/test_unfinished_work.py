"""What a team in a database has left when its lead is gone: the requests that a resume takes up count too."""

import json

import pytest

from teamwright.database.address import parse_address
from teamwright.database.connection import Database
from teamwright.protocol.errors import TeamRefused
from teamwright.team_records.team_catalogue import NewTeam
from teamwright.team_records.team_state import LeadLease
from tests.database.spaces import holder

REQUEST = {"kind": "permission", "tool_use_id": "toolu_1"}
STORED = {
    "requests/crew/perm-1.json": REQUEST,
    "requests/crew/perm-2.json": {"kind": "permission"},
    "requests/crew/perm-3.json": REQUEST,
    "requests/crew/perm-3.answer.json": {"decision": "allow"},
    "requests/crew/answered/perm-4.json": REQUEST,
    "requests/crew2/perm-5.json": REQUEST,
}
"""Rows of the files of a session: an open request, one that no resume takes up, an answered one, a closed one."""


async def test_open_requests_of_a_team_in_a_database_are_unfinished_work_as_in_files(space):
    async with holder(space) as (stores, _):
        made = await stores.teams.create(NewTeam("crew", LeadLease("one", 1), "/repo", "m", 1))
        assert (await stores.teams.unfinished_work(made.directory)).requests == 0
    database = await Database.open(parse_address(space))
    try:

        async def store(connection):
            for name, body in STORED.items():
                content = json.dumps(body).encode()
                for start, part in ((0, content[:9]), (9, content[9:])):
                    await connection.execute(
                        "insert into session_parts (session, name, start, content) values ($1, $2, $3, $4)",
                        *("one", name, start, part),
                    )

        await database.write(store)
    finally:
        await database.close()
    async with holder(space, "session/two") as (stores, _):
        left = await stores.teams.unfinished_work(made.directory)
        assert (left.requests, left.is_finished) == (2, False)
        with pytest.raises(TeamRefused, match="2 open requests"):
            await stores.teams.create(NewTeam("crew", LeadLease("two", 1), "/repo", "m", 2))
