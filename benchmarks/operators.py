"""Every operator of the benchmark's networks by itself, beside eager and onnxruntime: where we are behind, by how much.

    python -m benchmarks.operators [--peer-python PYTHON] [--models NAME …] [--precisions fp32 int8] [--isa avx2]
                                   [--short] [--rounds 5] [--least SHARE] [--out FILE]

A row is an operator with the shapes, dtypes and arguments that it has in a network of benchmarks.peers, and what it was
given there; rows that several networks have are measured once. Ours has the default options of a user: a model of this
operator, lowered with XnnpackPartitioner(). In int8 it takes and gives floats, and onnxruntime's does so too; eager's
side is that of floats. Views and batch norms behind a convolution, which lowering folds, have no row. Times are
processor time of one thread, medians of rounds in turn.

Printed: geometric means over the rows, and the rows above the better peer that cost their network the most, as a share
of the time of its operators. For each network follows what all of them cost together. onnxruntime takes part where
--peer-python has it and --isa does not limit us, which it does not obey. --short measures six networks and rows of 2 %
and more.
"""

from __future__ import annotations

import argparse
import json
import math
import operator
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils import _pytree as pytree

from executorch_py.cli.instruction_sets import ISAS, check_isa, isa_settings

LEVEL = 1.03
SHORT = ("mobilenet_v3_large", "convnext_tiny", "distilbert", "separator", "detector", "tagger")
FOLDED = (torch.ops.aten.batch_norm.default, torch.ops.aten._native_batch_norm_legit_no_training.default)
#: Constants with more numbers are drawn: trained weights are normal, those of an untrained network are not.
DRAWN = 4096


@dataclass
class Case:
    """An operator and what it is given; a tensor of `constants` is a weight."""

    name: str
    target: torch._ops.OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    constants: set[int]  # places among the leaves of (args, kwargs)
    ms: float = 0.0  # eager's, once

    def module(self) -> tuple[GraphModule, tuple[torch.Tensor, ...]]:
        """A module of this operator, and its inputs."""
        leaves, shape = pytree.tree_flatten((self.args, self.kwargs))
        root, graph, inputs = torch.nn.Module(), torch.fx.Graph(), []
        for place, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and place not in self.constants:
                inputs.append(leaf.detach().contiguous())
                leaves[place] = graph.placeholder(f"x{len(inputs)}")
        for place in self.constants:
            root.register_buffer(f"weight{place}", leaves[place])
            leaves[place] = graph.get_attr(f"weight{place}")
        args, kwargs = pytree.tree_unflatten(leaves, shape)
        result = graph.call_function(self.target, args, kwargs)
        returns = self.target._schema.returns
        if len(returns) > 1:  # the others are for training
            result = graph.call_function(operator.getitem, (result, 0))
        graph.output(result)
        return GraphModule(root, graph).eval(), tuple(inputs)


@dataclass
class Row:
    """Figures of a case; milliseconds of a call, NaN where a side was not measured."""

    name: str
    precision: str
    ours: float
    eager: float
    onnxruntime: float = math.nan
    reason: str = ""
    networks: dict[str, int] = field(default_factory=dict)  # network -> how many times it has this operator

    @property
    def peer(self) -> float:
        """The better peer; eager has no int8."""
        sides = [self.onnxruntime] if self.precision == "int8" and not math.isnan(self.onnxruntime) else []
        sides = sides or [side for side in (self.eager, self.onnxruntime) if not math.isnan(side)]
        return min(sides)

    @property
    def ratio(self) -> float:
        return self.ours / self.peer


class _Capture(Interpreter):
    """Runs a graph twice; the operators of the second time by their names."""

    def __init__(self, program: torch.export.ExportedProgram) -> None:
        super().__init__(program.graph_module)
        user = set(program.graph_signature.user_inputs)
        self._weights = {node for node in program.graph.nodes if node.op == "placeholder" and node.name not in user}
        self.found: dict[str, Case] = {}
        self.counts: dict[str, int] = {}
        self.total_ms = 0.0

    def run_node(self, n: Node) -> Any:
        start = time.perf_counter()
        result = super().run_node(n)
        ms = (time.perf_counter() - start) * 1e3
        if n.op == "call_function" and isinstance(n.target, torch._ops.OpOverload):
            self.total_ms += ms
            self._keep(n, result, ms)
        return result

    def _keep(self, node: Node, result: Any, ms: float) -> None:
        args, kwargs = self.fetch_args_kwargs_from_env(node)
        leaves = pytree.tree_leaves((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not tensors or _is_view(result, tensors) or _is_folded(node):
            return
        nodes = pytree.tree_leaves((node.args, node.kwargs))
        constants = {place for place, leaf in enumerate(nodes) if leaf in self._weights}
        name = _name(node.target, args, kwargs)
        self.counts[name] = self.counts.get(name, 0) + 1
        self.found.setdefault(name, Case(name, node.target, args, kwargs, constants)).ms = ms


def _is_view(result: Any, tensors: list[torch.Tensor]) -> bool:
    storages = {tensor.untyped_storage().data_ptr() for tensor in tensors}
    results = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    return not results or results[0].untyped_storage().data_ptr() in storages


def _is_folded(node: Node) -> bool:
    before = node.args[0] if node.args else None
    return node.target in FOLDED and isinstance(before, Node) and "conv" in str(before.target)


def _name(target: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    def text(leaf: Any) -> str:
        if isinstance(leaf, torch.Tensor):
            kind = "" if leaf.dtype == torch.float32 else str(leaf.dtype).removeprefix("torch.") + ":"
            return kind + "x".join(map(str, leaf.shape))
        return f"{leaf:.3g}" if isinstance(leaf, float) else str(leaf)

    def value(given: Any) -> str:
        return "[" + ",".join(map(value, given)) + "]" if isinstance(given, list | tuple) else text(given)

    given = [*map(value, args), *(f"{key}={value(kwarg)}" for key, kwarg in kwargs.items())]
    return f"{target.__name__.removesuffix('.default')}({', '.join(given)})".replace(" ", "")


class _Whole(torch.nn.Module):
    """A network under a name of its own: parts named `code` are none of a GraphModule's."""

    def __init__(self, network: torch.nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.network(*inputs)


def cases_of(name: str, least: float) -> list[tuple[Case, int]]:
    """The operators of a network that take `least` of it and more in eager, with how often each stands in it."""
    from benchmarks.peers.models import MODELS

    model = MODELS[name]()
    with torch.no_grad():
        program = torch.export.export(_Whole(model.module), model.inputs).run_decompositions({})
        capture = _Capture(program)
        leaves = pytree.tree_leaves(model.inputs)
        values = iter(leaves)
        named = {**program.state_dict, **program.constants}
        kinds = {spec.arg.name: spec.target for spec in program.graph_signature.input_specs}
        given = [
            next(values) if kinds[node.name] is None else named[kinds[node.name]]
            for node in program.graph.nodes
            if node.op == "placeholder"
        ]
        capture.run(*given)
        capture.counts, capture.total_ms = {}, 0.0
        capture.run(*given)
    chosen = []
    for key, case in capture.found.items():
        count = capture.counts[key]
        if case.ms * count >= least * capture.total_ms:
            _draw_weights(case)
            chosen.append((case, count))
    return chosen


def _draw_weights(case: Case) -> None:
    leaves, shape = pytree.tree_flatten((case.args, case.kwargs))
    for place in case.constants:
        weight = leaves[place].detach()
        if weight.is_floating_point() and weight.numel() > DRAWN:
            weight = torch.randn(weight.shape, generator=torch.Generator().manual_seed(place)) * weight.std()
        leaves[place] = weight
    case.args, case.kwargs = pytree.tree_unflatten(leaves, shape)


class Sides:
    """Measures cases: ours and eager in this process, onnxruntime in a worker of benchmarks.peers."""

    def __init__(self, pool: Any, folder: Path, options: argparse.Namespace) -> None:
        self._pool, self._folder, self._options = pool, folder, options

    def prepare(self, cases: list[Case], precisions: list[str]) -> dict[tuple[str, str], str]:
        """Writes onnxruntime's files in one process; why there is none, for those that have none."""
        if self._pool is None:
            return {}
        jobs = {}
        for number, case in enumerate(cases):
            module, inputs = case.module()
            stem = self._folder / f"{number}"
            torch.export.save(torch.export.export(module, inputs), stem.with_suffix(".pt2"))
            torch.save(list(inputs), stem.with_suffix(".inputs.pt"))
            with torch.inference_mode():
                torch.save(pytree.tree_leaves(module(*inputs)), stem.with_suffix(".expected.pt"))
            for precision in precisions:
                (self._folder / precision).mkdir(exist_ok=True)
                jobs[case.name, precision] = {
                    "exported": str(stem.with_suffix(".pt2")), "inputs": str(stem.with_suffix(".inputs.pt")),
                    "precision": precision, "out": str(self._folder / precision / f"{number}.onnx"),
                }  # fmt: skip
        answers = self._pool.ask("onnxruntime", {"do": "prepare", "jobs": list(jobs.values())})["jobs"]
        return {key: answer.get("failed", "") for key, answer in zip(jobs, answers, strict=True)}

    def measure(self, case: Case, number: int, precision: str, reason: str | None) -> Row | None:
        """One row; None where a precision changes nothing."""
        from benchmarks import models
        from benchmarks.peers.pool import Failed
        from tests.models.zoo import Method

        try:
            module, inputs = case.module()
            program = _lowered(module, inputs, precision)
        except Exception as problem:  # whatever export, a quantizer or lowering say: the reason is shown
            text = f"{type(problem).__name__}: {problem}".splitlines()[0]
            return Row(case.name, precision, math.nan, math.nan, reason=text)
        if program is None:
            return None
        ours, eager = models.calls(program, Method(module, inputs), "forward")
        theirs = reason == ""
        if theirs:
            stem = self._folder / f"{number}"
            request = {"do": "load", "threads": 1, "clock": "processor", "settle": False}
            request["file"] = str(self._folder / precision / f"{number}.onnx")
            request |= {"inputs": f"{stem}.inputs.pt", "expected": f"{stem}.expected.pt"}
            try:
                self._pool.ask("onnxruntime", request)
            except Failed as problem:
                theirs, reason = False, f"onnxruntime: {problem}"
        rounds = []
        for _ in range(self._options.rounds):
            row = models.measure(case.name, ours, eager, 1, 1, self._options.block)
            block = {"do": "block", "ms": self._options.block}
            rounds.append((row.ours, row.eager, self._pool.ask("onnxruntime", block)["ms"] if theirs else math.nan))
        if theirs:
            self._pool.ask("onnxruntime", {"do": "unload"})
        return Row(case.name, precision, *map(statistics.median, zip(*rounds, strict=True)), reason=reason or "")


def _lowered(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], precision: str) -> Any:
    from executorch_py.backends.xnnpack import XnnpackPartitioner

    import executorch_py as et
    from benchmarks.peers.engines import calibration

    program = torch.export.export(module, inputs)
    if precision == "int8":
        from executorch_py import quantizer
        from executorch_py.errors import InvalidStateError

        try:
            program = quantizer.quantize(program, (), "static_int8", calibration(inputs))
        except InvalidStateError:  # it found nothing to quantize
            return None
    lowered = et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    return et.Runtime.get().load_program(lowered.to_executorch().buffer)


def sweep(options: argparse.Namespace, pool: Any) -> Iterator[Row]:
    """Measures network by network; a row is given when it is new."""
    known: dict[tuple[str, str], Row | None] = {}
    for place, network in enumerate(options.models):
        title = f"{network} ({place + 1} of {len(options.models)})"
        _progress(f"{title}: operators")
        cases = cases_of(network, options.least)
        new = [case for case, _ in cases if (case.name, options.precisions[0]) not in known]
        with tempfile.TemporaryDirectory() as folder:
            sides = Sides(pool, Path(folder), options)
            _progress(f"{title}: files of {len(new)} operators")
            reasons = sides.prepare(new, options.precisions)
            for case, count in cases:
                for precision in options.precisions:
                    key = case.name, precision
                    is_new = key not in known
                    if is_new:
                        _progress(f"{title}: {new.index(case) + 1} of {len(new)}")
                        known[key] = sides.measure(case, new.index(case), precision, reasons.get(key))
                    if row := known[key]:
                        row.networks[network] = count
                        if is_new:
                            yield row


def report(rows: list[Row], worst: int = 25) -> str:
    """Geometric means, the rows that cost the most, and what they cost each network."""
    from benchmarks.peers.report import geometric_mean

    lines = []
    for precision in sorted({row.precision for row in rows}):
        mine = [row for row in rows if row.precision == precision and not math.isnan(row.ours)]
        totals: dict[str, float] = {}
        behind: dict[str, float] = {}
        for row in mine:
            for network, count in row.networks.items():
                totals[network] = totals.get(network, 0.0) + count * row.ours
                behind[network] = behind.get(network, 0.0) + count * max(0.0, row.ours - row.peer)
        slow = [row for row in mine if row.ratio > LEVEL]
        means = {
            "eager" + (" in fp32" if precision == "int8" else ""): [row.ours / row.eager for row in mine],
            "onnxruntime": [row.ours / row.onnxruntime for row in mine],
            "the better": [row.ratio for row in mine],
        }
        told = ", ".join(f"{name} {geometric_mean(ratios):.3f}" for name, ratios in means.items())
        lines.append(f"{precision}: {len(mine)} rows, geometric mean of ours over {told}; {len(slow)} above {LEVEL}")

        def cost(row: Row, totals: dict[str, float] = totals) -> tuple[float, str]:
            shares = {n: c * (row.ours - row.peer) / totals[n] for n, c in row.networks.items()}
            network = max(shares, key=lambda n: shares[n])
            return shares[network], network

        lines.append(f"  {'costs':>6} {'ratio':>6} {'ours ms':>9} {'eager':>9} {'ort':>9}  network, operator")
        for row in sorted(slow, key=cost, reverse=True)[:worst]:
            share, network = cost(row)
            lines.append(
                f"  {share:6.1%} {row.ratio:6.2f} {row.ours:9.4f} {row.eager:9.4f} {row.onnxruntime:9.4f}  "
                f"{network} x {row.networks[network]}, {row.name[:150]}"
            )
        lines.append("  behind, of the time of its operators: " + ", ".join(
            f"{network} {behind[network] / totals[network]:.1%}" for network in totals
        ))  # fmt: skip
    failed = [row for row in rows if math.isnan(row.ours)]
    lines += [f"not measured: {row.precision} {row.name[:100]}: {row.reason[:100]}" for row in failed]
    return "\n".join(lines)


def _progress(text: str) -> None:
    print("\r" + text.ljust(70) + ("" if text else "\r"), end="", file=sys.stderr, flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.operators", description=__doc__.splitlines()[0])
    parser.add_argument("--peer-python", type=Path, help="python of the environment with onnxruntime")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="networks of benchmarks.peers; default: all")
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "int8"), default=["fp32", "int8"])
    parser.add_argument("--isa", choices=ISAS, help="the highest instruction set")
    parser.add_argument("--short", action="store_true", help="minutes: six networks, their largest operators")
    parser.add_argument("--least", type=float, help="share of a network's time in eager that has a row (0.002)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--block", type=float, default=10.0, help="milliseconds of a block")
    parser.add_argument("--out", type=Path, default=Path("build/bench/operators.json"))
    options = parser.parse_args(arguments)
    from benchmarks.peers.engines import quiet

    if options.isa:
        check_isa(options.isa)
        os.environ.update(isa_settings(options.isa))  # before the libraries are loaded
    quiet()
    import executorch_py as et
    from benchmarks.peers.models import LARGE, SMALL
    from benchmarks.peers.pool import Pool

    options.models = options.models or list(SHORT if options.short else (*SMALL, *LARGE))
    options.least = options.least or (0.02 if options.short else 0.002)
    torch.set_num_threads(1)
    et.set_num_threads(1)
    rows: list[Row] = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with Pool(["onnxruntime"], options.peer_python or Path()) as pool:
        try:
            for row in sweep(options, pool if options.peer_python and not options.isa else None):
                rows.append(row)
        except KeyboardInterrupt:
            print("\nstopped: what was measured so far", file=sys.stderr)
    _progress("")
    options.out.write_text(json.dumps([asdict(row) for row in rows], indent=1).replace("NaN", "null") + "\n")
    print(report(rows))
    print(f"figures: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
