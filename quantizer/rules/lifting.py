"""A program as a module that quantization works on, and the converted module as a program, without tracing again.

``ExportedProgram.module()`` seeks every parameter in every module and writes the graph's code three times. ``unlift``
does neither. torch.export of a converted module takes as long as that of the model, and forgets modules and source
lines. The graph, however, is there already: ``lift`` makes inputs of its constants again, in the order that
torch.export gives them, and the few new nodes get the types that their operators say.
"""

import copy
import warnings
from typing import Any

import torch
from torch import fx, nn
from torch.export import ExportedProgram
from torch.export._unlift import _unlift as unlift_graph
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx._lazy_graph_module import _LazyGraphModule as LazyGraphModule
from torch.fx.traceback import NodeSource, NodeSourceAction
from torch.utils import _pytree as pytree

from executorch_py.errors import InternalError
from executorch_py.graphs.modules import module_of, with_free_names
from executorch_py.graphs.nodes import fake_mode_of, module_attribute
from executorch_py.graphs.rewriting import argument_of, with_guards_of

from .loops import given_to_bodies
from .matching import CONV, CONV_TRANSPOSE, LINEAR, VALUE, constants_remembered, is_constant

aten = torch.ops.aten

_decomposed = torch.ops.quantized_decomposed
_QUANTIZE = (
    _decomposed.quantize_per_tensor.default,
    _decomposed.quantize_per_tensor.tensor,
    _decomposed.quantize_per_channel.default,
    _decomposed.quantize_per_channel_group.default,
)
#: Elements that are quantized at a time.
_AT_ONCE = 1 << 17
#: Of these the result has the sizes of the first argument: with integers of the type that stands last, or float32.
_KEEPS_SIZES = {
    **dict.fromkeys(_QUANTIZE[:3], True),
    **dict.fromkeys((_decomposed.dequantize_per_tensor.default, _decomposed.dequantize_per_channel.default), False),
}

#: Outputs that are written back.
_WRITES = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION, OutputKind.PARAMETER_MUTATION)
_PREFIX = {InputKind.PARAMETER: "p_", InputKind.BUFFER: "b_", InputKind.CONSTANT_TENSOR: "c_"}


def lift(module: fx.GraphModule, program: ExportedProgram) -> ExportedProgram:
    """``module`` as a program.

    Args:
        module: What convert_pt2e made of ``program.module()``.
        program: The program before quantization: inputs, outputs, ranges and guards are its own.

    Raises:
        InternalError: The module's inputs or outputs are not those of the program.
    """
    return _Lifting(module, program).run()


def copied(graph: fx.Graph) -> fx.Graph:
    """A copy of ``graph``, without the warning that torch gives when it copies the structure of the inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return copy.deepcopy(graph)


def unlift(program: ExportedProgram) -> fx.GraphModule:
    """What ``module_of(program, check_guards=False)`` gives, without checks of inputs.

    Its code is written when it runs.
    """
    if program.verifiers[0].dialect != "TRAINING":
        return module_of(program, check_guards=False)
    program = with_free_names(program)
    signature, call = program.graph_signature, program.module_call_graph[0]
    module = LazyGraphModule(program.graph_module, copied(program.graph))
    module.meta.update(program.graph_module.meta)
    for node, source in zip(module.graph.nodes, program.graph.nodes, strict=True):
        node.meta["from_node"] = [NodeSource(source, "ExportedProgram.module()", NodeSourceAction.CREATE)]
    for spec in signature.input_specs:
        if spec.kind in _PREFIX:
            held_in = program.constants if spec.target not in program.state_dict else program.state_dict
            _hold(module, str(spec.target), held_in[spec.target], spec)
        elif spec.kind is InputKind.CUSTOM_OBJ:
            _hold(module, str(spec.target), program.constants[spec.target], spec)
    return unlift_graph(
        module,
        [None if spec.kind is InputKind.USER_INPUT else spec.target for spec in signature.input_specs],
        [spec.target if spec.kind in _WRITES else None for spec in signature.output_specs],
        program.call_spec.in_spec,
        program.call_spec.out_spec,
        forward_arg_names=call.signature.forward_arg_names if call.signature else None,
    )


def _hold(module: nn.Module, path: str, value: Any, spec: InputSpec) -> None:
    """Gives a module what a program holds at a path, with the modules on the way there."""
    *owners, name = path.split(".")
    for owner in owners:
        if owner not in module._modules:
            module.add_module(owner, nn.Module())
        module = module.get_submodule(owner)
    if spec.kind is InputKind.PARAMETER:
        module.register_parameter(name, value)
    elif spec.kind is InputKind.BUFFER:
        module.register_buffer(name, value, persistent=bool(spec.persistent))
    else:
        setattr(module, name, value)


def fold_quantized_constants(module: fx.GraphModule) -> None:
    """Quantizes what is constant, in place: integers take the place of float weights.

    torchao's own folding also computes what comes behind, dequantized weights above all.
    """
    graph = module.graph
    done: dict[Any, fx.Node] = {}
    quantized = [node for node in graph.nodes if node.op == "call_function" and node.target in _QUANTIZE]
    with constants_remembered():
        constant = [node for node in quantized if is_constant(node)]
    for node in constant:
        key = (node.target, *node.args)
        if key not in done:
            name = f"_frozen_param{len(done)}"
            module.register_buffer(name, _integers_of(module, node))
            with graph.inserting_before(node):
                done[key] = graph.get_attr(name)
        node.replace_all_uses_with(done[key])
        graph.erase_node(node)
    graph.eliminate_dead_code()
    module.recompile()


def _integers_of(module: fx.GraphModule, node: fx.Node) -> torch.Tensor:
    """What a quantize node of constants makes.

    Rows with scales of their own are taken some at a time, so that the floats between stay in the cache.
    """
    if node.target is not _decomposed.quantize_per_channel.default or node.args[3] != 0:
        return constant_value(module, node)
    rows, scales, zero_points = (constant_value(module, source).detach() for source in node.args[:3])
    integers = torch.empty_like(rows, dtype=node.args[6])
    step = max(1, _AT_ONCE * len(rows) // max(1, rows.numel()))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        integers[some] = node.target(rows[some], scales[some], zero_points[some], *node.args[3:])
    return integers


def freeze_computed_weights(module: fx.GraphModule) -> None:
    """Weights and biases that a model computes from constants (masks, weight norm) become constants, in place.

    What is dequantized stays: its constant are the integers.
    """
    made: dict[fx.Node, fx.Node] = {}
    values: dict[fx.Node, Any] = {}
    for node in list(module.graph.nodes):
        if node.op != "call_function" or node.target not in CONV | CONV_TRANSPOSE | LINEAR:
            continue
        for source in node.args[1:3]:
            if not isinstance(source, fx.Node) or source.op != "call_function" or not is_constant(source):
                continue
            if getattr(source.target, "namespace", "") == _decomposed.name:
                continue
            if source not in made:
                name = f"_computed_for_{node.name}_{len(made)}"
                while hasattr(module, name):
                    name += "_"
                module.register_buffer(name, constant_value(module, source, values).detach().contiguous())
                with module.graph.inserting_before(source):
                    made[source] = module.graph.get_attr(name)
                made[source].meta = dict(source.meta)
            node.replace_input_with(source, made[source])
    if made:
        module.graph.eliminate_dead_code()
        module.recompile()


def constant_value(module: fx.GraphModule, node: fx.Node, known: dict[fx.Node, Any] | None = None) -> Any:
    """The value of a node that depends on constants only."""
    known = {} if known is None else known
    if node not in known:
        if node.op == "get_attr":
            known[node] = module_attribute(module, str(node.target))
        elif node.op == "placeholder":
            known[node] = node.meta[VALUE]
        else:
            args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: constant_value(module, source, known))
            with torch.no_grad():
                known[node] = node.target(*args, **kwargs)  # type: ignore[operator]
    return known[node]


class _Lifting:
    def __init__(self, module: fx.GraphModule, program: ExportedProgram) -> None:
        self._module, self._program = module, program
        self._graph = fx.Graph()
        self._new: dict[fx.Node, Any] = {}
        self._root = torch.nn.Module()
        self._mode = fake_mode_of(program)
        self._state: dict[str, Any] = {}
        self._constants: dict[str, Any] = {}
        self._specs: list[InputSpec] = []
        self._lifted: dict[str, fx.Node] = {}
        self._fakes: dict[Any, torch.Tensor] = {}

    def run(self) -> ExportedProgram:
        given_to_bodies(self._module, lambda value: self._fake(value.shape, value.dtype))
        self._lift_constants()
        self._add_user_inputs()
        writes: list[tuple[OutputKind, str, fx.Node]] = []
        results: Any = ()
        for node in self._module.graph.nodes:
            if node.op == "call_function":
                if node.target is aten.copy_.default and (write := self._write_of(node)) is not None:
                    writes.append(write)
                    self._new[node] = write[2]  # a model that returns what it writes returns the write
                else:
                    self._copy(node)
            elif node.op == "output":
                results = pytree.tree_leaves(node.args[0])
        return self._finish(writes, [self._mapped(r) if isinstance(r, fx.Node) else r for r in results])

    # ----------------------------------------------------------------------------------------------------------- inputs

    def _lift_constants(self) -> None:
        parameters = dict(self._module.named_parameters(remove_duplicate=False))
        buffers = dict(self._module.named_buffers(remove_duplicate=False))
        persistent = set(self._module.state_dict(keep_vars=True))
        found: dict[InputKind, dict[str, Any]] = {kind: {} for kind in _PREFIX}
        for node in self._module.graph.nodes:
            if node.op != "get_attr" or str(node.target) in self._lifted or not node.users:
                continue
            name = str(node.target)
            value = module_attribute(self._module, name)
            if not isinstance(value, torch.Tensor):
                if isinstance(value, fx.GraphModule):
                    self._type_body(value)
                self._root.add_module(name, value) if isinstance(value, torch.nn.Module) else setattr(
                    self._root, name, value
                )
                continue
            kind = (
                InputKind.PARAMETER
                if name in parameters
                else InputKind.BUFFER
                if name in buffers
                else InputKind.CONSTANT_TENSOR
            )
            found[kind][name] = value
        for kind, entries in found.items():
            for name, value in entries.items():
                node = self._graph.placeholder(_PREFIX[kind] + name.replace(".", "_"))
                node.target = node.name  # a module's name may have letters that no name in Python has ("block1-0")
                plain = type(value) in (torch.Tensor, torch.nn.Parameter) and value.is_contiguous()
                node.meta["val"] = (
                    self._fake(value.shape, value.dtype) if plain else self._mode.from_tensor(value, static_shapes=True)
                )
                is_persistent = name in persistent
                self._specs.append(
                    InputSpec(
                        kind, TensorArgument(node.name), name, is_persistent if kind is InputKind.BUFFER else None
                    )
                )
                if kind is InputKind.CONSTANT_TENSOR or (kind is InputKind.BUFFER and not is_persistent):
                    self._constants[name] = value
                else:
                    self._state[name] = value
                self._lifted[name] = node

    def _add_user_inputs(self) -> None:
        given = [spec for spec in self._program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
        nodes = [node for node in self._module.graph.nodes if node.op == "placeholder"]
        old = {node.name: node for node in self._program.graph.nodes if node.op == "placeholder"}
        if len(given) != len(nodes):
            raise InternalError(f"the converted module has {len(nodes)} inputs, the program had {len(given)}")
        for spec, node in zip(given, nodes, strict=True):
            new = self._graph.placeholder(node.name)
            new.name = node.name
            before = old.get(getattr(spec.arg, "name", ""))
            new.meta = dict(before.meta if before is not None else node.meta)
            self._new[node] = new
            argument = copy.copy(spec.arg)
            if getattr(argument, "name", ""):
                argument.name = new.name  # type: ignore[misc]
            self._specs.append(InputSpec(InputKind.USER_INPUT, argument, None))

    # ------------------------------------------------------------------------------------------------------------ nodes

    def _mapped(self, node: fx.Node) -> Any:
        if node.op == "get_attr":
            name = str(node.target)
            if name in self._lifted:
                return self._lifted[name]
            if node not in self._new:
                self._new[node] = self._graph.get_attr(name)
                self._new[node].meta = dict(node.meta)
        return self._new[node]

    def _copy(self, node: fx.Node) -> None:
        new = self._graph.node_copy(node, self._mapped)
        new.meta = {key: value for key, value in node.meta.items() if key != "quantization_annotation"}
        if "val" not in new.meta:
            new.meta["val"] = self._value_of(new)
        self._new[node] = new

    def _type_body(self, body: fx.GraphModule) -> None:
        """Types of the nodes that quantization put into a body of control flow, and into those inside of it."""
        for node in body.graph.nodes:
            if node.op == "call_function" and "val" not in node.meta:
                node.meta["val"] = self._value_of(node)
        for inner in body.children():
            if isinstance(inner, fx.GraphModule):
                self._type_body(inner)

    def _value_of(self, node: fx.Node) -> Any:
        """The type of a node that quantization put in."""
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: source.meta["val"])
        if node.target in _KEEPS_SIZES and not kwargs and all(isinstance(size, int) for size in args[0].shape):
            return self._fake(args[0].shape, args[-1] if _KEEPS_SIZES[node.target] else torch.float32)
        with self._mode, torch.no_grad():
            return node.target(*args, **kwargs)  # type: ignore[operator]

    def _fake(self, shape: Any, dtype: torch.dtype) -> torch.Tensor:
        """A row-major fake tensor, one for all of a type."""
        key = (dtype, tuple(shape))
        if key not in self._fakes:
            with self._mode:
                self._fakes[key] = torch.empty(key[1], dtype=dtype)
        return self._fakes[key]

    def _write_of(self, node: fx.Node) -> tuple[OutputKind, str, fx.Node] | None:
        """A change of state or of an input at the end of a module: an output of the program."""
        target, value = node.args[:2]
        is_last = all(user.op == "output" for user in node.users)
        if not is_last or not isinstance(target, fx.Node) or not isinstance(value, fx.Node):
            return None
        if target.op == "get_attr" and str(target.target) in self._lifted:
            return OutputKind.BUFFER_MUTATION, str(target.target), self._mapped(value)
        if target.op == "placeholder":
            return OutputKind.USER_INPUT_MUTATION, self._new[target].name, self._mapped(value)
        return None

    # ---------------------------------------------------------------------------------------------------------- the end

    def _finish(self, writes: list[tuple[OutputKind, str, fx.Node]], results: list[Any]) -> ExportedProgram:
        program = self._program
        kinds = (OutputKind.USER_OUTPUT,)
        user = [spec for spec in program.graph_signature.output_specs if spec.kind in kinds]
        results = results[len(results) - len(user) :] if len(results) > len(user) else results
        if len(results) != len(user):
            raise InternalError(f"the converted module has {len(results)} outputs, the program had {len(user)}")
        outputs = [value for _, _, value in writes] + results
        specs = [OutputSpec(kind, TensorArgument(value.name), target) for kind, target, value in writes]
        specs += [OutputSpec(OutputKind.USER_OUTPUT, argument_of(value), None) for value in results]
        output = self._graph.output(tuple(outputs))
        output.meta["val"] = tuple(v.meta.get("val") if isinstance(v, fx.Node) else v for v in outputs)
        lifted = ExportedProgram(
            root=self._root,
            graph=self._graph,
            graph_signature=ExportGraphSignature(self._specs, specs),
            state_dict=self._state,
            range_constraints=program.range_constraints,
            module_call_graph=program.module_call_graph[:1],
            example_inputs=program.example_inputs,
            constants=self._constants,
            verifiers=program.verifiers,
        )
        return with_guards_of(lifted, program)
