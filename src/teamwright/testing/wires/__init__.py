"""What the loopback model server speaks, one API a file: the same scripted answers in each API's own form."""

from teamwright.testing.wires.wire import Wire, wire_of

__all__ = ["Wire", "wire_of"]
