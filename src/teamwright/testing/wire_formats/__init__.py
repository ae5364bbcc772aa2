"""The wire formats of the loopback model server, one module for each model API."""

from teamwright.testing.wire_formats.wire_format import WireFormat, format_for_path

__all__ = ["WireFormat", "format_for_path"]
