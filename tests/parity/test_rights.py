"""What a member may do, and who says so: the same in the lead's process and in one of its own."""

import pytest

from tests.parity.house import House, house, write

pytestmark = pytest.mark.timeout(120)


@pytest.mark.promise("G4", "E1")
async def test_a_call_that_is_asked_about_waits_for_the_one_queue_and_runs_on_a_yes(tmp_path, backend):
    async with house(tmp_path, backend, {"ann": [write("made")]}) as crew:
        member = await crew.spawn("ann")
        request = await crew.request()
        assert (request.member, request.kind, request.tool) == ("ann", "permission", "Write")
        assert member.state == "blocked"
        assert await request.allow()
        await crew.asked("ann", 2)
        await crew.quiet()
    assert (crew.work / "made").read_text() == "x"
    assert crew.closed() == [("ann", "allow", "program")]
