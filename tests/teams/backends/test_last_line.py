"""How a process ended comes before the last line of its output, which need not be the reason."""

from types import SimpleNamespace

import pytest

from teamwright.teams.backend_teammate import BackendTeammate


@pytest.mark.finding("3S13")
@pytest.mark.parametrize(
    ("output", "said"),
    [
        ("ended by signal 9\nwarning: a thing\nWorking.", ": ended by signal 9 (its last output: Working.)"),
        ("ended by signal 9", ": ended by signal 9"),
        ("Working.", " (its last output: Working.)"),
        ("", ""),
    ],
)
async def test_a_killed_process_is_told_as_killed(output, said):
    async def last_output():
        return output

    member = SimpleNamespace(last_output=last_output)
    assert await BackendTeammate._last_line(member) == said
