"""Control flow: torch's higher-order operators as nodes of the IR with regions.

A region captures values from around it, so an operand that every branch sees unchanged needs no input: it is the
captured value itself. What changes from turn to turn (a slice, a carried value) is an input of the region.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from .builder import Builder


def import_control_flow(importer: Builder, node: fx.Node) -> list[Any]:
    """Writes a control-flow node; returns the IR values of its results.

    Raises:
        NotSupportedError: No form in the IR for this higher-order operator.
    """
    name = node.target.name()
    writer = _WRITERS.get(name)
    if writer is None:
        remedy = _REMEDIES.get(name, f"supported are {', '.join(sorted(_WRITERS))}; write the computation with those")
        importer.refuse(node, f"the higher-order operator '{name}' has no form in a program; {remedy}")
    return writer(importer, node)


def _body(node: fx.Node, reference: fx.Node) -> fx.Graph:
    return getattr(node.graph.owning_module, reference.target).graph


def _operands(importer: Builder, operands: Any) -> list[Any]:
    return [importer.value(item) if isinstance(item, fx.Node) else item for item in operands]


def _results(importer: Builder, node: fx.Node) -> list[Any]:
    return [importer.type_of(node, value) for value in node.meta["val"]]


def _region(
    importer: Builder,
    owner: Any,
    graph: fx.Graph,
    name: str,
    inputs: list[tuple[str, Any]],
    captured: list[Any],
) -> None:
    """Writes one region whose first placeholders are ``inputs`` and whose others are ``captured`` values."""
    values = [*importer.builder.begin_region(owner, name, inputs), *captured]
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    for placeholder, value in zip(placeholders, values, strict=True):
        importer.set_value(placeholder, value)
    importer.builder.end_region(importer.import_nodes(graph))


def _cond(importer: Builder, node: fx.Node) -> list[Any]:
    predicate, true_body, false_body, operands = node.args
    condition = importer.value(predicate) if isinstance(predicate, fx.Node) else predicate
    captured = _operands(importer, operands)
    _narrow_results(importer, node, [_body(node, true_body), _body(node, false_body)])
    results = importer.emit(node, "cond", [condition], _results(importer, node))
    for reference, name in ((true_body, "true"), (false_body, "false")):
        _region(importer, results[0], _body(node, reference), name, [], captured)
    return results


def _narrow_results(importer: Builder, node: fx.Node, bodies: list[fx.Graph]) -> None:
    """A size in which the branches differ is as large as the largest of them, which torch does not say."""
    branches = [_output_values(body) for body in bodies]
    for result, *values in zip(node.meta["val"], *branches, strict=True):
        if isinstance(result, torch.Tensor):
            for size, *sizes in zip(result.shape, *(value.shape for value in values), strict=True):
                dims = [importer.symbols.dim(item) for item in sizes]
                lows = [dim if isinstance(dim, int) else dim[1] for dim in dims]
                highs = [dim if isinstance(dim, int) else dim[2] for dim in dims]
                bounded = [high for high in highs if high is not None]
                importer.symbols.narrow(size, min(lows), max(bounded) if len(bounded) == len(highs) else None)


def _output_values(graph: fx.Graph) -> list[Any]:
    outputs = next(reversed(graph.nodes)).args[0]
    items = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return [item.meta.get("val") if isinstance(item, fx.Node) else item for item in items]


def _map(importer: Builder, node: fx.Node) -> list[Any]:
    reference, mapped, captured = node.args
    graph = _body(node, reference)
    placeholders = [item for item in graph.nodes if item.op == "placeholder"]
    inputs = [(item.name, importer.type_of(item, item.meta["val"])) for item in placeholders[: len(mapped)]]
    results = importer.emit(node, "map", _operands(importer, mapped), _results(importer, node))
    _region(importer, results[0], graph, "body", inputs, _operands(importer, captured))
    return results


def _scan(importer: Builder, node: fx.Node) -> list[Any]:
    reference, initial, scanned, captured = node.args
    graph = _body(node, reference)
    placeholders = [item for item in graph.nodes if item.op == "placeholder"]
    count = len(initial) + len(scanned)
    inputs = [(item.name, importer.type_of(item, item.meta["val"])) for item in placeholders[:count]]
    arguments = [_operands(importer, initial), _operands(importer, scanned)]
    results = importer.emit(node, "scan", arguments, _results(importer, node))
    _region(importer, results[0], graph, "body", inputs, _operands(importer, captured))
    return results


def _while_loop(importer: Builder, node: fx.Node) -> list[Any]:
    condition, body, carried, captured = node.args
    values = _operands(importer, captured)
    results = importer.emit(node, "while_loop", _operands(importer, carried), _results(importer, node))
    for reference, name in ((condition, "condition"), (body, "body")):
        graph = _body(node, reference)
        placeholders = [item for item in graph.nodes if item.op == "placeholder"][: len(carried)]
        inputs = [(f"{name}_{item.name}", importer.type_of(item, item.meta["val"])) for item in placeholders]
        _region(importer, results[0], graph, name, inputs, values)
    return results


_WRITERS: dict[str, Callable[[Builder, fx.Node], list[Any]]] = {
    "cond": _cond,
    "map_impl": _map,
    "scan": _scan,
    "while_loop": _while_loop,
}

#: Operators that no program can hold, and what to do about each.
_REMEDIES = {
    "_export_tracepoint": "export without preserve_module_call_signature",
    "autograd_function_apply": "export with strict=False, which traces what the autograd.Function computes",
    "custom_function_call": "export with strict=False, which traces what the autograd.Function computes",
    "dynamo_bypassing_wrapper": "call the wrapped function itself",
    "flat_apply": "call the function without the decorator that hides it from export",
    "graphsafe_run_with_rng_state": "leave out the activation checkpoint, which draws its random numbers again",
    "run_and_save_rng_state": "leave out the activation checkpoint, which draws its random numbers again",
    "run_dtensor_rng_op": "it draws random numbers on several devices; export the model with ordinary tensors",
    "register_hook": "leave out the hook on a gradient, or export with strict=False, which does",
    "run_with_rng_state": "leave out the activation checkpoint, which draws its random numbers again",
    "aoti_call_delegate": "it is code compiled for this machine; export the model that it was compiled from",
    "call_torchbind": "methods of a script object do not leave Python; give the model the tensors that it computes",
    "cudagraph_conditional_nodes": "it belongs to CUDA graphs; export with torch.cond",
    "inductor_compiled_code": "it is code compiled for this machine; export the model itself, not torch.compile of it",
    "inline_asm_elementwise": "it is code for a GPU; write the computation with tensor operators",
    "invoke_leaf_function": "a leaf function is Python that export does not look into; call it without the decorator",
    "local_map_hop": "it splits tensors over several devices; export the model without local_map",
    "trace_wrapped": "it belongs to compiled autograd; export without it",
    "triton_kernel_wrapper_functional": "Triton kernels run on GPUs; export with the PyTorch form of the kernel",
    "triton_kernel_wrapper_mutation": "Triton kernels run on GPUs; export with the PyTorch form of the kernel",
    "while_loop_stack_output": "it belongs to the gradient of while_loop; train with scan or map instead",
    "with_effects": "operators with effects beside their results cannot run on a device; leave the call out",
}
