"""What is kept of servers on disk stays readable, and is written as it is described."""

import shutil
from pathlib import Path

import pytest

from teamwright.mcp.listing_store import ListingStore, ServerListing
from teamwright.session.process_state import SERVERS_FILE, ServerStatus, read_servers, write_servers

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.promise("H7")
def test_a_listing_is_read_and_written_as_in_the_golden_file(tmp_path):
    shutil.copy(GOLDEN / "mcp_listing_v1.json", tmp_path / "digest.json")
    listings = ListingStore(tmp_path)
    listing = listings.load("digest", "db")
    [tool] = listing.tools
    assert (tool.remote_name, tool.name, tool.required_parameters) == ("query rows", "mcp__db__query_rows", ["sql"])
    listings.save("again", "db", listing)
    assert (tmp_path / "again.json").read_text() == (GOLDEN / "mcp_listing_v1.json").read_text().rstrip("\n")


def test_the_oldest_listings_go(tmp_path):
    listings = ListingStore(tmp_path)
    for number in range(205):
        listings.save(f"{number}", "db", ServerListing())
    assert len(list(tmp_path.iterdir())) == 200 and listings.load("204", "db") == ServerListing()


def test_the_state_of_servers_is_read_and_written_as_in_the_golden_file(tmp_path):
    shutil.copy(GOLDEN / "mcp_state_v1.json", tmp_path / SERVERS_FILE)
    found = read_servers(tmp_path)
    assert found[0] == ServerStatus(
        "db", "stdio", "failed", None, 0, "ended (exit code 3)", "/home/you/.teamwright/settings.json"
    )
    write_servers(tmp_path, found)
    assert (tmp_path / SERVERS_FILE).read_text() == (GOLDEN / "mcp_state_v1.json").read_text().rstrip("\n")


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"servers": 1}', b'{"servers": [1]}', b'{"servers": [{}]}'])
def test_a_state_that_cannot_be_read_is_none(tmp_path, content):
    (tmp_path / SERVERS_FILE).write_bytes(content)
    assert read_servers(tmp_path) == () == read_servers(tmp_path / "nowhere")
