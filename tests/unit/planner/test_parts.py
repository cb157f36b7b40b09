"""Connected parts and orders, against those of networkx."""

from graphlib import CycleError

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.parts import connected_parts, one_after_the_other


def test_bundles_that_share_a_thing_are_one_part():
    assert connected_parts([["b", "c"], ["a"], ["d", "b"], ["e", "e"], []]) == [{"b", "c", "d"}, {"a"}, {"e"}]


def test_nothing_has_no_parts():
    assert connected_parts([]) == []


@given(st.lists(st.lists(st.integers(0, 12), max_size=4), max_size=12))
def test_parts_are_the_components_of_the_graph(bundles):
    graph = nx.Graph()
    for bundle in bundles:
        graph.add_nodes_from(bundle)
        nx.add_path(graph, bundle)
    assert connected_parts(bundles) == list(nx.connected_components(graph))


@given(st.sets(st.integers(0, 12)), st.sets(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=12))
def test_the_order_is_the_first_of_those_that_the_steps_allow(numbers, pairs):
    steps = [(max(pair), min(pair)) for pair in pairs if pair[0] != pair[1]]
    graph = nx.DiGraph()
    graph.add_nodes_from(numbers)
    graph.add_edges_from(steps)
    assert list(one_after_the_other(numbers, steps)) == list(nx.lexicographical_topological_sort(graph))


def test_a_circle_has_no_order():
    with pytest.raises(CycleError):
        list(one_after_the_other([1, 2], [(1, 2), (2, 1)]))
