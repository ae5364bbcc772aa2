"""People with one database do not see each other's teams, and commands of agents do not reach the database."""

from pathlib import Path

import pytest

from teamwright.database.address import DatabaseAddress, parse_address
from teamwright.database.administration import upgrade_schema
from teamwright.database.connection import Database
from teamwright.protocol.errors import CannotStart
from teamwright.protocol.ids import LEAD
from teamwright.protocol.mail import InboxEntry
from teamwright.protocol.messages import text_block
from teamwright.sandbox.sandbox import find_implementation
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.testing import ScriptedModel
from tests.database.spaces import holder, make_space
from tests.support.programs import reason
from tests.teams.crew import newest

pytestmark = pytest.mark.promise("J6")


@pytest.fixture
def people(postgres):
    """The addresses of two people who may make schemas in one database, and nothing else."""
    names = ("ann", "bob")
    for name in names:
        postgres.sql(f"create role {name} login; grant create on database postgres to {name}")
    yield [postgres.url.replace("postgres@", f"{name}@") for name in names]
    for name in names:
        postgres.sql(f"drop owned by {name} cascade; drop role {name}")


async def test_two_people_with_one_database_do_not_see_each_other(people):
    ann, bob = people
    for address in (ann, bob):
        made = await upgrade_schema(parse_address(address), create=True)
        assert made.schema == f"teamwright_{parse_address(address).url.split('//')[1].split('@')[0]}"
    async with holder(ann) as (stores, _):
        await stores.mailbox("crew", "ada").put(InboxEntry("ben", "for the crew of ann"))
    async with holder(bob) as (stores, _):
        assert await stores.mailbox_names("crew") == []
    with pytest.raises(CannotStart) as refused:
        await Database.open(DatabaseAddress(bob, "teamwright_ann"))
    assert refused.value.slug == "database"


SECRETS = {"PGPASSWORD": "hush-1", "PGPASSFILE": "/tmp/hush-2", "PGUSER": "hush-3", "PGHOST": "hush-4"}


@pytest.mark.parametrize("sandbox", ["off", "auto"])
@pytest.mark.slow_after(1)
async def test_a_command_of_a_member_gets_no_variable_that_leads_to_the_database_and_confined_no_password_file(
    tmp_path, postgres, monkeypatch, own_home, sandbox
):
    if sandbox == "auto" and find_implementation().name == "none":
        pytest.skip(reason("bwrap"))
    url = await make_space(postgres.new_space())
    for name in (".pgpass", ".pg_service.conf", "elsewhere"):
        Path.home().joinpath(name).write_text("hush-5")
    secrets = SECRETS | {"PGPASSFILE": str(Path.home() / "elsewhere"), "TEAMWRIGHT_DATABASE": url}
    for name, value in secrets.items():
        monkeypatch.setenv(name, value)
    files = "cat ~/.pgpass ~/.pg_service.conf ~/elsewhere; " if sandbox == "auto" else ""
    look = ("Bash", {"command": f"{files}env; echo $TEAMWRIGHT_DATABASE", "description": "look"})
    calls = {LEAD: [("Agent", {"name": "ada", "description": "look", "prompt": "Look."}), look], "ada": [look]}
    seen: list[str] = []

    def answer(request):
        seen.append(newest(request))
        left = calls[request.agent_name]
        return [left.pop(0)] if left else "ok"

    options = Options(cwd=tmp_path, model=ScriptedModel(answer), permission_mode="bypassPermissions", sandbox=sandbox)
    async with open_session(options) as session:
        await session.run([text_block("Look.")])
    output = "\n".join(seen)
    assert output.count("PATH=") >= 2 and not any(calls.values())
    assert "hush" not in output and url not in output and str(postgres.port) not in output
