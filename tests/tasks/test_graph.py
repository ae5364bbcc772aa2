"""Paths and circles, asked of a graph in memory."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from teamwright.protocol.errors import TaskRefused
from teamwright.tasks.task_rules import add_ids, find_path, refuse_cycles, remove_id, sort_ids
from tests.support.examples import examples


def blocks(edges):
    return lambda id: [b for a, b in edges if a == id]


def test_ids_are_ordered_as_numbers():
    assert sort_ids(["10", "9", "1", "9"]) == ["1", "9", "10"]


def test_the_shortest_way_is_found_with_both_ends():
    edges = [("1", "2"), ("2", "3"), ("3", "4"), ("1", "4")]
    assert find_path("1", "4", blocks(edges)) == ["1", "4"]
    assert find_path("1", "3", blocks(edges)) == ["1", "2", "3"]
    assert find_path("4", "1", blocks(edges)) is None


def test_a_circle_that_stands_already_does_not_hang_the_search():
    assert find_path("1", "9", blocks([("1", "2"), ("2", "1")])) is None


@pytest.mark.promise("F17", "B3", "P2")
def test_a_circle_is_refused_with_its_path():
    with pytest.raises(TaskRefused, match="#1 → #2 → #1") as caught:
        refuse_cycles([("2", "1")], blocks([("1", "2")]))
    assert caught.value.code == "cycle"


@pytest.mark.promise("F17", "B3")
def test_a_circle_among_the_new_edges_alone_is_refused():
    with pytest.raises(TaskRefused, match="#2 → #3 → #2"):
        refuse_cycles([("2", "3"), ("3", "2")], blocks([]))


@pytest.mark.promise("F17", "B3")
def test_a_task_cannot_wait_for_itself():
    with pytest.raises(TaskRefused) as caught:
        refuse_cycles([("5", "5")], blocks([]))
    assert caught.value.code == "self_edge"


ids = st.integers(1, 6).map(str)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(ids, ids), max_size=20))
def test_edges_that_were_all_let_through_have_an_order(wanted):
    kept = []
    for edge in wanted:
        try:
            refuse_cycles([edge], blocks(kept))
        except TaskRefused:
            continue
        kept.append(edge)
    left = {str(n) for n in range(1, 7)}
    while left:
        free = {i for i in left if not any(a in left for a, b in kept if b == i)}
        assert free
        left -= free


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(ids, ids), max_size=12))
def test_an_edge_is_refused_only_if_there_is_a_way_back(wanted):
    kept = []
    for blocker, blocked in wanted:
        try:
            refuse_cycles([(blocker, blocked)], blocks(kept))
            kept.append((blocker, blocked))
        except TaskRefused as refused:
            if refused.code == "cycle":
                assert find_path(blocked, blocker, blocks(kept))


def test_adding_keeps_the_order_and_removing_takes_one_out():
    assert add_ids(("3", "1"), ["2", "1"]) == ("3", "1", "2")
    assert remove_id(("3", "1", "2"), "1") == ("3", "2")
