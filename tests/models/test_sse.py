"""The reader of server-sent events: lines, cuts, comments, and what is never an event."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.processes.http import SseReader
from tests.support.examples import examples


def read(*chunks):
    reader = SseReader()
    return [event for chunk in chunks for event in reader.feed(chunk)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_line_ends_at_lf_crlf_or_cr(end):
    assert read(b"event: a" + end + b"data: 1" + end + end) == [("a", b"1")]


def test_the_separators_of_unicode_end_no_line():
    text = json.dumps("a\u2028b\u2029c\u0085d\x0b\x0c\x1c", ensure_ascii=False).encode()
    assert read(b"data: " + text + b"\n\n") == [("", text)]


def test_a_crlf_that_is_cut_in_two_is_one_line_end():
    assert read(b"data: 1\r", b"\ndata: 2\r", b"\n\r", b"\n") == [("", b"1\n2")]


def test_comments_unknown_fields_and_a_byte_order_mark_are_passed_over():
    assert read(b"\xef\xbb\xbfdata: 1\n: keep alive\nretry: 3\nid: 4\nodd\n\n") == [("", b"1")]


def test_several_data_lines_are_one_event_and_only_one_space_is_dropped():
    assert read(b"data:  a\ndata:b\ndata\n\n") == [("", b" a\nb\n")]


def test_an_event_without_data_and_one_that_was_not_ended_are_none():
    assert read(b"event: a\n\nevent: b\ndata: 1\n") == []


def test_a_name_holds_for_its_own_event_only():
    assert read(b"event: a\n\ndata: 1\n\n") == [("", b"1")]


def test_the_bytes_of_an_unfinished_event_are_counted():
    reader = SseReader()
    assert reader.feed(b"data: 12") == [] and reader.held_bytes == 8
    assert reader.feed(b"34\ndata: 5") == [] and reader.held_bytes == 4 + 7
    assert reader.feed(b"\n\n") == [("", b"1234\n5")] and reader.held_bytes == 0


def test_the_last_id_is_that_of_a_whole_event_and_a_new_connection_begins_without_the_unfinished_one():
    reader = SseReader()
    assert reader.feed(b"id: 1\ndata: a\n\nid: 2\nevent: x\ndata: {\ndata: cu") == [("", b"a")]
    assert reader.last_id == "1", "event 2 is sent again"
    reader.restart()
    assert reader.held_bytes == 0
    assert reader.feed(b"data: b\n\n") == [("", b"b")] and reader.last_id == "1"
    assert reader.feed(b"id: 2\n\n") == [] and reader.last_id == "2"


EVENTS = st.lists(st.tuples(st.sampled_from(["", "ping", "é"]), st.text(min_size=1)), min_size=1, max_size=6)


@settings(max_examples=examples(150), deadline=None)
@given(EVENTS, st.sampled_from(["\n", "\r\n", "\r"]), st.data())
def test_events_come_out_alike_however_the_bytes_are_cut(events, end, data):
    wire = "".join(
        (f"event: {name}{end}" if name else "") + f"data: {json.dumps(text, ensure_ascii=False)}{end}{end}"
        for name, text in events
    ).encode("utf-8", "replace")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(wire)), max_size=8)))
    chunks = [wire[a:b] for a, b in zip([0, *cuts], [*cuts, len(wire)], strict=True)]
    wanted = [(name, json.dumps(text, ensure_ascii=False).encode("utf-8", "replace")) for name, text in events]
    assert read(*chunks) == wanted
