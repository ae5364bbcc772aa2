"""Where members' processes call in: the socket of a lead that was killed."""

import socket
from typing import Any

import pytest

from teamwright.backends.connections import MemberConnections


@pytest.mark.promise("F21")
async def test_a_lead_without_member_processes_removes_the_socket_of_the_killed_lead_before_it(tmp_path):
    left = tmp_path / "wire"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(left))
    unused: Any = None
    await MemberConnections(unused, left, unused).close()
    assert not left.exists()
