"""The models of the replay, each exported once, quantized in several ways and lowered with and without the delegate.

Names are paths: ``zoo/lstm/dynamic_int8/delegate``. The part before the last slash is one program, which is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tests.conformance.random_graphs import graphs
from tests.conformance.random_networks import exported, networks
from tests.models.zoo import ZOO

FLOAT = "float"
PRESETS = ("static_int8", "dynamic_int8", "dynamic_int4", "int8_weight_only", "int4_weight_only", "fp16")
#: The small models, which stand for the others in a quick replay: a quarter of the presets, a tenth of the networks.
QUICK = ("ds_cnn", "lstm", "llama", "detection_head")
_NETWORKS, _GRAPHS, _QUICK_DRAWN = 40, 20, 8


@dataclass(frozen=True)
class Sample:
    """A model with the inputs that it runs with: method -> exported program, method -> inputs."""

    name: str
    programs: dict[str, torch.export.ExportedProgram]
    inputs: dict[str, tuple[Any, ...]]
    presets: tuple[str, ...] = ()


def samples(quick: bool) -> Iterator[tuple[str, Callable[[], Sample]]]:
    """Every model by name, with the function that exports it."""
    for name in QUICK if quick else ZOO:
        yield f"zoo/{name}", lambda name=name: _of_zoo(name, quick)
    count = _QUICK_DRAWN if quick else _NETWORKS
    for index, network in enumerate(_drawn(networks(), count)):
        presets = ("static_int8",) if index % 2 == 0 else ()
        yield (
            f"networks/{index:02}",
            lambda network=network, presets=presets: Sample(
                "network", {"forward": exported(network)}, {"forward": network.inputs}, presets
            ),
        )
    for index, graph in enumerate(_drawn(graphs(), _QUICK_DRAWN if quick else _GRAPHS)):
        inputs = tuple(graph.inputs)
        yield (
            f"graphs/{index:02}",
            lambda graph=graph, inputs=inputs: Sample(
                "graph", {"forward": torch.export.export(graph, inputs)}, {"forward": inputs}
            ),
        )


def _of_zoo(name: str, quick: bool) -> Sample:
    methods = ZOO[name]()
    presets = () if len(methods) > 1 else ("static_int8", "dynamic_int8") if quick else PRESETS
    programs = {method: one.export() for method, one in methods.items()}
    return Sample(name, programs, {method: one.inputs for method, one in methods.items()}, presets)


def _drawn(strategy: SearchStrategy, count: int) -> list[Any]:
    """The first ``count`` values that hypothesis draws; the same in every process with the same hypothesis."""
    found: list[Any] = []

    @seed(0)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(value=strategy)
    def draw(value: Any) -> None:
        found.append(value)

    draw()
    return found[:count]
