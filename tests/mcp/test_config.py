"""What `mcpServers` may say, what names of tools become, and what of a listing is used."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.mcp.server_config import ConfigSource, parse_servers
from teamwright.mcp.session_servers import PrefixRoom, select_for_prefix
from teamwright.mcp.tool_listing import (
    MAX_DESCRIPTION,
    MAX_LENGTH,
    parse_server_key,
    parse_tools,
    server_key,
    tool_name,
)
from teamwright.processes.http import SseReader

READING = ConfigSource("f.json", Path("/project"), {"A": "one", "EMPTY": "", "KEY": "sk-1"}, {"KEY"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def read(**entry):
    return parse_servers({"db": entry}, READING)


def test_variables_are_filled_in_everywhere_they_may_stand():
    [made], problems = read(command="${A}/x", args=["${B:-two}", "${EMPTY:-three}", "$A"], env={"X": "${A}${B:-}"})
    assert (made.argv, made.env, problems) == (("one/x", "two", "three", "$A"), {"X": "one"}, [])
    [made], _ = read(url="https://${A}.example/x?key=${B:-secret99}", headers={"X-Key": "Bearer ${A}"})
    assert (made.kind, made.url, made.headers) == (
        "http",
        "https://one.example/x?key=secret99",
        {"X-Key": "Bearer one"},
    )
    assert made.display_text == "https://one.example/x"
    assert made.mask_secrets("failed at ?key=secret99") == "failed at ?****"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ({"command": "${B}"}, "the variable B is not set"),
        ({"command": "x", "args": ["${EMPTY}"]}, "the variable EMPTY is not set"),
        ({"command": "x", "env": {"K": "${KEY}"}}, "the variable KEY is not given to servers of a repository"),
        ({"url": "https://x.example/${KEY:-}"}, "the variable KEY is not given"),
        ({}, "its command is not a text"),
        ({"command": " "}, "its command is not a text"),
        ({"command": "a\0b"}, "a NUL"),
        ({"command": "x", "args": "y"}, "its args is not a list of texts"),
        ({"command": "x", "env": {"A": 1}}, "holds something that is not a text"),
        ({"command": "x", "env": {"A=B": "1"}}, "a name that cannot be one"),
        ({"url": "ftp://x"}, "not an http address"),
        ({"url": "http://x:0/"}, "not an http address"),
        ({"url": "http://x y/"}, "not an http address"),
        ({"url": "http://x", "headers": {"A": "b\nc"}}, "cannot be sent"),
        ({"url": "http://x", "headers": {"A b": "c"}}, "cannot be sent"),
        ({"type": "sse", "url": "ftp://x"}, "not an http address"),
        ({"type": "ws", "url": "http://x"}, "the type 'ws' is not supported"),
        ({"command": "x", "timeout": "soon"}, "its timeout"),
    ],
)
def test_an_entry_that_cannot_be_used_is_left_out_with_the_reason(entry, why):
    made, [problem] = read(**entry)
    assert not made and problem.startswith("f.json: the MCP server 'db' is left out: ") and why in problem


@pytest.mark.promise("H7", "P7")
def test_a_name_that_would_move_a_cursor_is_left_out():
    entries = {"a\x1b[2Jb": {"command": "x"}, "db": {"command": "x"}}
    made, [problem] = parse_servers(entries, ConfigSource("f.json", Path("/"), {}))
    assert [one.name for one in made] == ["db"]
    assert problem == "f.json: the MCP server 'a?[2Jb' is left out: its name cannot be part of a tool's name"


def test_one_that_is_disabled_is_none_and_what_we_do_not_know_is_said():
    assert read(command="x", disabled=True) == ([], [])
    [made], [problem] = read(command="x", autoApprove=["y"])
    assert made.argv == ("x",) and "'autoApprove' is not used" in problem


@given(JSON)
def test_whatever_a_file_says_reading_it_does_not_fail(value):
    for entries in (
        value,
        {"db": value},
        {"db": {"command": value, "args": value}},
        {"db": {"url": "http://x", "headers": value}},
    ):
        made, problems = parse_servers(entries, READING)
        assert all(isinstance(line, str) for line in problems)
        assert all(server.key == server_key(server.name) for server in made)


@given(st.text(max_size=60), st.text(min_size=1, max_size=60))
def test_no_server_s_name_can_be_taken_for_another_s(server, tool):
    key = server_key(server)
    if key:
        name = tool_name(key, tool)
        assert parse_server_key(name) == key
        assert all(c.isascii() and (c.isalnum() or c in "_-") for c in name)


@given(st.lists(JSON, max_size=5), JSON)
def test_whatever_a_server_lists_reading_it_does_not_fail(entries, schema):
    wrapped = [{"name": "t", "description": entry, "inputSchema": schema} for entry in entries]
    for listed in (entries, wrapped):
        tools, refused = parse_tools("k", listed)
        assert len(tools) + len(refused) == len(listed)
        assert all(tool.schema["type"] == "object" and len(tool.name) <= MAX_LENGTH for tool in tools)


def test_tools_are_bounded_and_told_apart():
    deep: dict = {}
    for _ in range(60):
        deep = {"properties": {"a": deep}}
    listed = [
        {"name": "a b", "description": "x\x1b[2J" + "y" * 5_000},
        {"name": "a_b"},
        {"name": "x" * 80},
        {"name": "deep", "inputSchema": deep},
        {"name": "big", "inputSchema": {"properties": {"a": {"enum": ["x" * 90_000]}}}},
        {"name": "odd", "inputSchema": {"properties": {"a b": {}}}},
        {"name": "list", "inputSchema": {"type": "array"}},
        {"name": "any", "inputSchema": {"anyOf": [{"type": "string"}], "properties": {"title": {"title": "T"}}}},
    ]
    tools, refused = parse_tools("k", listed)
    assert [tool.remote_name for tool in tools] == ["a b", "any"] and len(refused) == 6
    assert len(tools[0].description) == MAX_DESCRIPTION and "\x1b" not in tools[0].description
    assert tools[1].schema == {"type": "object", "properties": {"title": {}}}


class Listed:
    def __init__(self, key: str, count: int, size: int) -> None:
        entries = [{"name": f"t{n}", "description": "x" * size} for n in range(count)]
        self.tools = parse_tools(key, entries)[0]


def test_a_prefix_has_all_tools_of_a_server_or_none_within_its_bounds():
    greedy, small, huge = Listed("greedy", 100, 50), Listed("small", 3, 50), Listed("huge", 1, 2_000)
    inside = select_for_prefix([greedy, small, huge], lambda _: True, PrefixRoom(30, 6_000))
    assert len(inside) == 4 and sum(tool.size for _, tool in inside) <= 6_000
    assert [tool.remote_name for server, tool in inside if server is small] == ["t0", "t1", "t2"]
    assert len(select_for_prefix([huge, small], lambda _: True, PrefixRoom(30, 1_000))) == 3
    assert inside == select_for_prefix([greedy, small, huge], lambda _: True, PrefixRoom(30, 6_000))
    assert not select_for_prefix([greedy], lambda _: True, PrefixRoom(0, 10_000))
    assert [t.remote_name for _, t in select_for_prefix([greedy], lambda name: name.endswith("t7"), PrefixRoom())] == [
        "t7"
    ]


@given(st.lists(st.binary(max_size=12).filter(lambda b: b"\r" not in b and b"\n" not in b), max_size=5), st.data())
def test_events_are_the_same_however_a_stream_is_cut(datas, data):
    ends = [data.draw(st.sampled_from([b"\n", b"\r\n", b"\r"])) for _ in datas]
    whole = b"".join(b"data: " + part + end + b"id: 1" + end + end for part, end in zip(datas, ends, strict=True))
    events, found = SseReader(), []
    while whole:
        at = data.draw(st.integers(1, len(whole)))
        found += [content for _, content in events.feed(whole[:at])]
        whole = whole[at:]
    assert found == datas
