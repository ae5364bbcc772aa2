"""The two ways to an entry's bytes are one."""

import json

from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.ids import iso_time
from teamwright.protocol.mail import InboxEntry, parse_entry

OPTIONAL = st.none() | st.text(min_size=1)
PLAIN = st.characters(exclude_categories=["Cs"])


@given(
    st.builds(
        InboxEntry,
        sender=st.text(),
        text=st.text(),
        summary=OPTIONAL,
        timestamp=OPTIONAL,
        color=OPTIONAL,
        msg_id=OPTIONAL,
        read=st.booleans(),
        extra=st.just({}) | st.just({"msgV": 1, "type": "message"}),
    )
)
def test_an_entrys_line_is_the_json_of_its_object(entry):
    whole = json.dumps(entry.to_json(), ensure_ascii=False, separators=(",", ":"))
    assert entry.encode() == whole.encode("utf-8", "replace")


@given(st.builds(InboxEntry, sender=st.text(PLAIN), text=st.text(PLAIN), read=st.booleans()))
def test_an_entry_comes_back_as_it_was(entry):
    assert parse_entry(json.loads(entry.encode())) == entry


def test_times_are_written_in_utc_with_milliseconds():
    assert iso_time(0) == "1970-01-01T00:00:00.000Z"
    assert iso_time(1_795_215_239_007) == "2026-11-20T22:53:59.007Z"
