"""Random programs against eager. The same ones in every run; ET_RANDOM_GRAPHS=1000 draws that many new ones."""

from __future__ import annotations

import warnings

import torch

import executorch_py as et
from tests.conformance.closeness import difference
from tests.conformance.drawn import drawn
from tests.conformance.random_graphs import Graph, graphs


@drawn("ET_RANDOM_GRAPHS", 40, graph=graphs())
def test_random_graph(graph: Graph) -> None:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = graph(*(t.clone() for t in graph.inputs))
        exported = torch.export.export(graph, tuple(graph.inputs))
        program = et.Runtime.get().load_program(et.to_edge(exported).to_executorch().buffer)
        actual = program.load_method("forward").execute([t.clone() for t in graph.inputs])
    for mine, theirs in zip(actual, expected, strict=True):
        # A dozen operators, each of which may lose a digit.
        wrong = difference(mine, theirs, looser=20.0)
        assert not wrong, f"{wrong}\n{graph!r}"
