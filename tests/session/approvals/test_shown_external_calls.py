"""What a person reads of a call of another program's tool: all of it, as people read it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.approvals.external_member_permissions import describe_call

pytestmark = pytest.mark.promise("E8", "F44")


@pytest.mark.parametrize(
    ("tool", "given", "lines"),
    [
        ("Bash", {"command": "make\nmake test"}, ["make", "make test"]),
        ("Bash", {"command": "make", "description": "of zed"}, ["make"]),
        ("Bash", {"command": "make", "timeout": 5}, ["make", "{", '  "timeout": 5', "}"]),
        ("Write", {"file_path": "/a", "content": "one\ntwo\n"}, ["/a: all of it", "+one", "+two"]),
        ("Write", {"file_path": "/a", "content": "one"}, ["/a: all of it", "+one", "\\ no line end here"]),
        ("Write", {"file_path": "/a", "content": ""}, ["/a: all of it"]),
        ("Edit", {"file_path": "/a", "old_string": "b\n", "new_string": "c"}, ["/a: at one place", "-b", "-", "+c"]),
        (
            "Edit",
            {"file_path": "/a", "old_string": "b", "new_string": "", "replace_all": True},
            ["/a: at every place", "-b", "+"],
        ),
        ("Write", {"file_path": "/a", "content": 3}, ["{", '  "file_path": "/a",', '  "content": 3', "}"]),
        ("Other", {"a": "é"}, ["{", '  "a": "é"', "}"]),
        ("Other", {}, ["{}"]),
    ],
)
def test_it_is_shown_as_people_read_it(tool, given, lines):
    assert describe_call(tool, given, "of zed").split("\n") == ["of zed", *lines]


anything = st.dictionaries(
    st.sampled_from(["command", "file_path", "content", "old_string", "new_string", "replace_all", "description", "x"]),
    st.text(max_size=8) | st.booleans() | st.integers() | st.none(),
)


@given(st.sampled_from(["Bash", "Write", "Edit", "Other"]), anything)
def test_nothing_of_it_is_left_out(tool, given):
    said = describe_call(tool, given)
    for value in given.values():
        if isinstance(value, str):
            for part in value.split("\n"):
                assert part in said or json.dumps(part, ensure_ascii=False)[1:-1] in said
