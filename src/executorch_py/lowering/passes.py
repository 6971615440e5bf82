"""Users' passes on fx programs: what ``transform`` and ``transform_passes`` take.

A pass is a callable that takes a GraphModule and returns a PassResult (or None when it changed the module in place).
The program around the new graph is made again, so that its signature names the nodes that exist now. An
ExportedProgramPassBase takes and gives the whole program; a manager of such passes does as well.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, OutputSpec

from executorch_py.errors import ExecutorchError, InvalidArgumentError, InvalidTypeError
from executorch_py.exir.pass_base import ExportedProgramPassBase, ExportedProgramPassResult
from executorch_py.graphs.rewriting import argument_of, copied

from .extraction import rebuilt

#: One pass, several, or several for each method by name.
Passes = Callable[..., Any] | Sequence[Callable[..., Any]] | Mapping[str, Sequence[Callable[..., Any]]]


def passes_for(passes: Passes | None, method: str) -> list[Callable[..., Any]]:
    """The passes that are to run on one method."""
    if passes is None:
        return []
    if isinstance(passes, Mapping):
        return passes_for(passes.get(method), method)
    if callable(passes):
        return [passes]
    several = getattr(passes, "passes", passes)  # a PassManager of torch has a list of them
    if not isinstance(several, Sequence) or not all(callable(one) for one in several):
        raise InvalidTypeError(
            f"passes are {passes!r:.80}, must be callables: one, a list, or a dict of lists by method"
        )
    return list(several)


def run_passes(program: ExportedProgram, passes: Sequence[Callable[..., Any]]) -> ExportedProgram:
    """``program`` after the passes; the given one is not changed.

    Raises:
        InvalidArgumentError: A pass returned something else than a PassResult or None, changed the interface, or left a
            graph that is none.
    """
    if not passes:
        return program
    program = copied(program)
    for one in passes:
        name = getattr(one, "__name__", type(one).__name__)
        if isinstance(one, ExportedProgramPassBase):
            program = _whole(one, program, name)
            continue
        module = _result_of(one, program.graph_module)
        try:
            program = _around(program, module, name)
        except ExecutorchError:
            raise
        except Exception as error:  # of fx's checks and those of the Edge dialect, which know nothing of passes
            raise InvalidArgumentError(f"the pass {name} left the graph broken: {error}") from error
    return program


def _whole(one: ExportedProgramPassBase, program: ExportedProgram, name: str) -> ExportedProgram:
    """The program that a pass over whole programs made of ``program``."""
    result: ExportedProgramPassResult = one(program)
    try:
        return rebuilt(result.exported_program, result.exported_program.graph_signature)
    except Exception as error:
        raise InvalidArgumentError(f"the pass {name} left the program broken: {error}") from error


def _result_of(one: Callable[..., Any], module: fx.GraphModule) -> fx.GraphModule:
    result = one(module)
    if result is None:
        return module
    changed = getattr(result, "graph_module", result)
    if not isinstance(changed, torch.fx.GraphModule):
        name = getattr(one, "__name__", type(one).__name__)
        raise InvalidArgumentError(f"the pass {name} returned {result!r:.60}; it must return a PassResult or None")
    return changed


def _around(program: ExportedProgram, module: fx.GraphModule, name: str) -> ExportedProgram:
    signature = program.graph_signature
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    last = next(reversed(module.graph.nodes))
    if last.op != "output" or not isinstance(last.args[0], (list, tuple)):
        raise InvalidArgumentError(f"the pass {name} left a graph that does not end in an output of a tuple")
    outputs = last.args[0]
    if len(placeholders) != len(signature.input_specs) or len(outputs) != len(signature.output_specs):
        raise InvalidArgumentError(
            f"the pass {name} changed the number of inputs ({len(signature.input_specs)} -> {len(placeholders)}) or "
            "outputs "
            f"({len(signature.output_specs)} -> {len(outputs)}) of the graph; a method's interface cannot change"
        )
    inputs = []
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        argument = spec.arg if getattr(spec.arg, "name", None) == node.name else argument_of(node)
        inputs.append(type(spec)(spec.kind, argument, spec.target, spec.persistent))
    specs = [
        OutputSpec(spec.kind, argument_of(value), spec.target)
        for spec, value in zip(signature.output_specs, outputs, strict=True)
    ]
    return rebuilt(program, ExportGraphSignature(inputs, specs), module)
