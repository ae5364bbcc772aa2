"""The files of one member on a worker: what its process fetches does not grow with the team."""

from teamwright.database.session_files import SessionFiles
from teamwright.storage.paths import Home
from tests.database.spaces import holder, make_space

DIGESTS = {name: (f"{number}" * 64) for number, name in enumerate(("ada", "bob", "cyd"))}


def member_files(place, name) -> SessionFiles:
    return SessionFiles(Home.at(place / "home"), "one", place / "work", name)


def begin_transcript(place, name) -> None:
    """Write the transcript and the prefix of a member, and what another member's text says of a third prefix."""
    directory = Home.at(place / "home").project(place / "work") / "one"
    for path, text in (
        (
            f"agents/{name}.jsonl",
            f'{{"type":"header","prefix":"{DIGESTS[name]}"}}\n{{"text":"\\"prefix\\":\\"{"2" * 64}\\""}}\n',
        ),
        (f"prefixes/{DIGESTS[name]}.json", f'"prefix of {name}"'),
        (f"members/{name}/events.jsonl", "{}\n"),
    ):
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)


async def test_a_member_that_moves_to_another_machine_gets_its_own_files_and_no_others(tmp_path, postgres):
    async with holder(await make_space(postgres.new_space())) as (stores, _):
        database = stores.database
        for name in DIGESTS:
            begin_transcript(tmp_path / name, name)
            files = member_files(tmp_path / name, name)
            await database.write(lambda connection, files=files: files.begin(connection, "/work"))
            database.ship_with_writes(files)
            await database.ship()
        database.files = None
        there = tmp_path / "other machine"
        files = member_files(there, "ada")
        assert await database.read(files.fetch) == 3
        assert await database.read(member_files(there, "ada").fetch) == 1  # a prefix is short, and is read again
        assert await database.read(member_files(tmp_path / "a new one", "dee").fetch) == 0
    found = {path.relative_to(there / "home").name for path in there.rglob("*") if path.is_file()}
    assert found == {"ada.jsonl", f"{DIGESTS['ada']}.json", "events.jsonl"}
    assert all("ada" in path.read_text() for path in there.rglob("prefixes/*.json"))
