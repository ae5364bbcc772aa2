"""The sessions of a directory that was moved, with a link at its former place: listed, resumed and removed."""

import asyncio
from pathlib import Path

import pytest

from teamwright.protocol.errors import TeamwrightError
from teamwright.protocol.messages import text_block
from teamwright.saved.project_removal import find_project, remove_project
from teamwright.saved.sessions import find_session, latest_session, session_views
from teamwright.session.open_session import open_session
from teamwright.session.options import Options
from teamwright.storage.paths import find_home
from teamwright.testing import ScriptedModel

pytestmark = pytest.mark.finding("3F13")


async def say(cwd: Path, prompt: str, model: ScriptedModel | None = None, **options: str) -> str:
    """Run one prompt in a directory; return the id of its session."""
    async with open_session(Options(cwd=cwd, model=model or ScriptedModel("ok"), **options)) as session:
        await session.run([text_block(prompt)])
        return session.id


@pytest.fixture
def moved(own_home, tmp_path) -> tuple[Path, Path, str]:
    """The former and the new place of a directory, and the id of its session."""
    root = tmp_path.resolve()
    former, now = root / "shop", root / "work" / "shop"
    former.mkdir()
    now.parent.mkdir()
    id = asyncio.run(say(former, "count the lines"))
    former.rename(now)
    former.symlink_to(now)
    return former, now, id


def test_its_sessions_are_listed_in_both_places_and_after_new_ones_of_the_new_place(moved):
    former, now, id = moved
    home = find_home()
    assert [view.id for view in session_views(home, now)] == [id] == [view.id for view in session_views(home, former)]
    newer = asyncio.run(say(now, "and the words"))
    assert [view.id for view in session_views(home, now)] == [newer, id]
    assert latest_session(home, now).id == newer and find_session(home, now, id[:8]).id == id


async def test_the_newest_one_continues_with_its_conversation(moved):
    _former, now, id = moved
    for resume in ("latest", id):
        model = ScriptedModel("ok")
        assert await say(now, "again", model, resume=resume) == id
        assert b"count the lines" in b"".join(model.requests[-1].items)
    assert [view.id for view in session_views(find_home())] == [id]


def test_its_data_are_removed_as_those_of_the_new_place(moved):
    _former, now, id = moved
    home = find_home()
    data = find_project(home, now)
    assert [view.id for view in data.sessions] == [id]
    asyncio.run(remove_project(home, data))
    assert session_views(home) == [] and list((home.own / "projects").iterdir()) == []


def test_without_the_link_and_beside_it_nothing_of_another_directory_is_listed(moved, tmp_path):
    former, now, _id = moved
    home = find_home()
    former.unlink()
    assert session_views(home, now) == []
    former.symlink_to(tmp_path)
    assert session_views(home, now) == []
    with pytest.raises(TeamwrightError, match="there is no session of"):
        latest_session(home, now)
