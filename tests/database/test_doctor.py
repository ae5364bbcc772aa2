"""`doctor` and `workers` with a database in an odd state: each one has a sentence, and no command fails on it."""

import json

import pytest

from teamwright.database.address import parse_address
from teamwright.database.schema import VERSION
from teamwright.database.worker_orders import WorkerOffer, register_worker, worker_lease
from tests.database.spaces import holder, make_space
from tests.database.test_commands_from_outside import Terminal


@pytest.fixture
async def terminal(tmp_path, postgres, own_home) -> Terminal:
    (tmp_path / "work").mkdir()
    return Terminal(tmp_path / "elsewhere", await make_space(postgres.new_space()), tmp_path / "work")


async def findings(terminal: Terminal) -> dict[str, dict]:
    """Return the findings of `doctor` about the database, by label."""
    done = await terminal.run("doctor", "--json")
    assert "Traceback" not in done.stderr and "bug in Teamwright" not in done.stderr, done.stderr
    return {one["label"]: one for one in json.loads(done.stdout)["findings"] if one["section"] == "database"}


@pytest.mark.slow
async def test_doctor_counts_the_connections_of_living_workers_and_names_a_dead_one(terminal):
    async with holder(terminal.url, worker_lease("big")) as (stores, _):
        await register_worker(stores.database, WorkerOffer("big", "host1", "0.1", slots=200))
        async with holder(terminal.url, worker_lease("dead")) as (others, _):
            await register_worker(others.database, WorkerOffer("dead", "host2", "0.1", slots=200))
        found = await findings(terminal)
        assert found["big"]["verdict"] == "ok" and "200 of 200 slots free" in found["big"]["value"]
        assert found["dead"]["verdict"] == "note" and "not running" in found["dead"]["value"]
        assert found["connections"]["verdict"] == "note" and "in all slots need 610" in found["connections"]["value"]
        assert "max_connections" in found["connections"]["do"]
        assert "dead on host2: not running" in await terminal.say("workers")
        await register_worker(stores.database, WorkerOffer("big", "host1", "0.1", slots=20))
        assert "connections" not in await findings(terminal)


@pytest.mark.slow
async def test_doctor_and_workers_name_a_newer_schema_and_a_role_without_rights(tmp_path, terminal, postgres):
    schema = parse_address(terminal.url).schema
    postgres.sql("create role stranger login")
    try:
        stranger = Terminal(tmp_path / "third", terminal.url.replace("postgres@", "stranger@"), tmp_path)
        found = await findings(stranger)
        assert any(one["verdict"] == "problem" and one["do"] for one in found.values()), found
        done = await stranger.run("workers")
        assert done.returncode == 3 and "bug in Teamwright" not in done.stderr, done.stderr
    finally:
        postgres.sql("drop role stranger")
    postgres.sql(f"update {schema}.space set version = {VERSION + 1}")
    assert f"has version {VERSION + 1}" in (await findings(terminal))["use"]["value"]
    done = await terminal.run("workers")
    assert done.returncode == 3 and "update Teamwright on this machine" in done.stderr
