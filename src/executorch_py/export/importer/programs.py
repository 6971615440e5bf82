"""fx -> et::ir::Program: the only file that knows both. For ``to_executorch()``, and what reads a program before that.

Every argument is written in the order of the operator's schema with its defaults, every tensor gets its type (dtype,
dims with their bounds, row-major), every node its source line. What the IR cannot say is an error that names the
operator, the line and what to do.

    >>> imported = import_programs({"forward": edge_program})  # doctest: +SKIP
    >>> print(imported.program.text())  # doctest: +SKIP
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch._higher_order_ops.executorch_call_delegate import executorch_call_delegate
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from executorch_py import _core
from executorch_py.errors import Diagnostic, ErrorCode, InvalidArgumentError, NotSupportedError
from executorch_py.export.dialect.custom_operators import operator_name
from executorch_py.export.dialect.in_place import operator_of
from executorch_py.graphs.dtypes import dtype_code
from executorch_py.graphs.program_state import ProgramState, StateTensor, TensorVersion, require_storable
from executorch_py.graphs.rewriting import CHECKS
from executorch_py.graphs.sources import Source, source_of
from executorch_py.graphs.training import training_methods

from .arguments import SchemaArguments
from .control_flow import import_control_flow
from .guards import import_guards
from .structure import structure_text
from .symbolic_ops import emit_check, emit_symbolic, is_symbolic
from .symbols import SymbolTable, least_sizes, named_symbols

aten = torch.ops.aten

#: Node of a constant, symbol and tensor -> name of its ``.ptd`` file; "" keeps it in the program.
ExternalFile = Callable[[fx.Node, str, torch.Tensor], str]

#: Most dimensions of a tensor in the file format.
_MAX_RANK = 16


@dataclass
class Imported:
    """A program in the IR and what the Python side remembers of it.

    Attributes:
        program: The ``_core.ProgramBuilder`` that compile() takes.
        delegates: The compiled parts in fx, in the order of the program's delegates.
        handles: IR debug handle -> (method, name of the fx node, its debug handles: a delegate's call has several).
        nodes: IR debug handle -> the fx node. Names are not enough: a body of control flow has its own.
        versions: The weights that the program borrows, as they were.
    """

    program: Any
    delegates: list[Any] = field(default_factory=list)
    handles: dict[int, tuple[str, str, tuple[int, ...]]] = field(default_factory=dict)
    nodes: dict[int, fx.Node] = field(default_factory=dict)
    versions: list[TensorVersion] = field(default_factory=list)

    def require_unchanged(self) -> None:
        """Refuses a program whose weights were changed since the import.

        Raises:
            InvalidStateError: Names the first weight that was changed.
        """
        for version in self.versions:
            version.require_unchanged("to_executorch()")


def import_programs(
    programs: Mapping[str, ExportedProgram],
    constant_methods: Mapping[str, Any] | None = None,
    external_file: ExternalFile | None = None,
    with_checks: bool = True,
    trained_file: str = "",
) -> Imported:
    """Writes Edge programs into one IR program.

    Args:
        programs: Method name -> Edge program.
        constant_methods: Method name -> what it returns (a number, bool, string, tensor, or list of these).
        external_file: Called for each constant: a name moves it to the ``.ptd`` file of that name, "" keeps it.
        with_checks: Whether ``torch._check`` and the guards of torch.export are enforced at run time. The published
            operators have no check, so files for the official runtime go without.
        trained_file: The ``.ptd`` file of the weights that a method trains; "" keeps them in the program.

    Raises:
        NotSupportedError: A construct has no form in the IR; names the node and its source line.
    """
    imported = Imported(_core.ProgramBuilder())
    state = ProgramState(programs)
    imported.versions.extend(state.versions())
    delegates: dict[str, bytes] = {}
    for name in sorted(programs):
        MethodImporter(name, programs[name], imported, state, external_file, delegates, with_checks, trained_file).run()
    for key in sorted(delegates):
        imported.program.named_data(key, delegates[key])
    for name, value in sorted({**(constant_methods or {}), **training_methods(programs)}.items()):
        if name in programs:
            raise InvalidArgumentError(f"constant method '{name}' has the name of a method")
        imported.program.constant_method(
            name, [_constant_value(imported, state, name, i, v) for i, v in _enumerated(value)]
        )
    return imported


def _enumerated(value: Any) -> list[tuple[int, Any]]:
    return list(enumerate(value if isinstance(value, (list, tuple)) else [value]))


def _constant_value(imported: Imported, state: ProgramState, method: str, index: int, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        require_storable(f"constant method '{method}', value {index}", value)
        symbol = state.reserve(f"{method}.{index}")
        kept = value.detach().cpu().contiguous()
        imported.program.constant_tensor(
            symbol, (dtype_code(kept.dtype), list(kept.shape)), kept.data_ptr() if kept.numel() else 0, kept
        )
        return f"@{symbol}"
    if isinstance(value, str) and (value.startswith("@") or any("\ud800" <= letter <= "\udfff" for letter in value)):
        raise NotSupportedError(
            f"constant method '{method}': {value!r:.80} cannot be returned, because it "
            + ("begins with '@'" if value.startswith("@") else "is no text of UTF-8")
        )
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise NotSupportedError(f"constant method '{method}': {value} does not fit in the 64 bits of a program's ints")
    if isinstance(value, (bool, int, float, str)):
        return value
    raise NotSupportedError(
        f"constant method '{method}' returns a {type(value).__name__}; ints, floats, bools, strings and tensors can be "
        "returned"
    )


class MethodImporter:
    """Writes one method. control_flow.py, symbolic_ops.py and arguments.py use its public methods."""

    def __init__(
        self,
        name: str,
        program: ExportedProgram,
        imported: Imported,
        state: ProgramState,
        external_file: ExternalFile | None,
        named_data: dict[str, bytes],
        with_checks: bool,
        trained_file: str,
    ) -> None:
        self.name = name
        self.program = program
        self.builder = imported.program.method(name)
        self.symbols = SymbolTable(program.range_constraints, named_symbols(program), least_sizes(program))
        self._imported = imported
        self._state = state
        self._external_file = external_file
        self._named_data = named_data
        self._with_checks = with_checks
        self._trained_file = trained_file
        self._value: dict[fx.Node, Any] = {}
        self._pending: dict[fx.Node, Callable[[], Any]] = {}  # constants and buffers, until they are read
        self._input_orders: dict[str, list[int]] = {}  # of user inputs that are not row-major

    # ------------------------------------------------------------------------------------------------------- the method

    def run(self) -> None:
        program = self.program
        signature = program.graph_signature
        placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        user_inputs: dict[str, int] = {}
        for node, spec in zip(placeholders, signature.input_specs, strict=True):
            if spec.kind == InputKind.USER_INPUT:
                user_inputs[node.name] = len(user_inputs)
                self._value[node] = self._user_input(node, spec.arg)
            elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                self._pending[node] = self._state_reader(node, self._state.of(self.name, spec))
            else:
                self.refuse(node, f"the module holds an object '{spec.target}' that is no tensor ({spec.kind.name})")
        if self._with_checks:
            import_guards(self, [node for node in placeholders if node.name in user_inputs])
        for node in program.graph.nodes:
            if node.op != "placeholder" and node.op != "output":
                self._node(node)
        self._outputs(next(reversed(program.graph.nodes)), user_inputs)
        self.builder.specs(
            structure_text(program.call_spec.in_spec, f"the inputs of method '{self.name}'"),
            structure_text(program.call_spec.out_spec, f"the outputs of method '{self.name}'"),
        )
        self.builder.finish()

    def _user_input(self, node: fx.Node, argument: Any) -> Any:
        if isinstance(argument, ConstantArgument):
            value = argument.value
            return self.builder.input(node.name, "none" if value is None else self._kind_of(node, value))
        value = node.meta["val"]
        if isinstance(value, torch.Tensor):
            order = dim_order_of(value)
            kind = self.type_of(node, value)
            if order == list(range(value.dim())):
                return self.builder.input(node.name, kind)
            # Everything inside is row-major; the caller's layout ends here.
            given = self.builder.input(node.name, (*kind, order))
            self._input_orders[node.name] = order
            return self._reordered(node, given, list(range(value.dim())), kind)
        return self.builder.input(node.name, self.type_of(node, value))

    def _reordered(self, node: fx.Node, value: Any, order: list[int], kind: tuple) -> Any:
        """``value`` in another dim order: the operator's arguments are self, dtype, layout, device, pin_memory, …"""
        arguments = [value, None, None, None, None, False, order]
        return self.emit(node, "dim_order_ops::_to_dim_order_copy", arguments, [kind])[0]

    def _kind_of(self, node: fx.Node, value: Any) -> Any:
        """Type of a specialised input, with the value that it was specialised to."""
        for kind, name in ((bool, "bool"), (int, "int"), (float, "double"), (str, "string")):
            if isinstance(value, kind):
                return (name, value)
        return self.refuse(
            node, f"input '{node.name}' is a {type(value).__name__}; tensors, numbers, bools and strings can be"
        )

    def _state_reader(self, node: fx.Node, state: StateTensor) -> Callable[[], Any]:
        def read() -> Any:
            tensor = state.tensor.contiguous()
            kind = (dtype_code(tensor.dtype), list(tensor.shape))
            data = tensor.data_ptr() if tensor.numel() else 0
            if state.is_mutable:
                file = self._trained_file if state.is_trained else ""
                return self.builder.buffer(state.symbol, kind, data, tensor, len(state.methods) > 1, file)
            return self.builder.constant(state.symbol, kind, data, tensor, self._file_of(node, state.symbol, tensor))

        return read

    def _file_of(self, node: fx.Node, symbol: str, tensor: torch.Tensor) -> str:
        return self._external_file(node, symbol, tensor) if self._external_file is not None else ""

    def _outputs(self, node: fx.Node, user_inputs: dict[str, int]) -> None:
        outputs: list[Any] = []
        parameters: list[Any] = []
        states = {spec.target: spec for spec in self.program.graph_signature.input_specs if spec.target is not None}
        placeholders = {item.name: item for item in self.program.graph.nodes if item.op == "placeholder"}
        for spec, argument in zip(self.program.graph_signature.output_specs, node.args[0], strict=True):
            if spec.kind in (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT):
                outputs.append(self.value(argument) if isinstance(argument, fx.Node) else self._literal(node, argument))
            elif spec.kind == OutputKind.GRADIENT_TO_PARAMETER:
                outputs.append(self.value(argument))
                parameters.append(self.value(placeholders[states[spec.target].arg.name]))
            elif spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION):
                written = self.value(argument)
                state = self._state.of(self.name, states[spec.target])
                self._read_state(node, state)
                self.builder.buffer_write(state.symbol, written)
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                written = self.value(argument)
                if spec.target in self._input_orders:
                    order = self._input_orders[spec.target]
                    kind = (*self.type_of(argument, argument.meta["val"]), order)
                    written = self._reordered(argument, written, order, kind)
                self.builder.input_write(user_inputs[spec.target], written)
            elif spec.kind == OutputKind.GRADIENT_TO_USER_INPUT:
                self.refuse(
                    node,
                    f"the gradient of the input '{spec.target}' has no place among a training method's outputs; "
                    f"export the model with an example input that does not require gradients",
                )
            else:
                self.refuse(node, f"an output of kind {spec.kind.name} has no form in a program")
        self.builder.outputs(outputs + parameters)

    def _read_state(self, node: fx.Node, state: StateTensor) -> None:
        """A buffer that is only written must be declared, too."""
        self._state_reader(node, state)()

    def _literal(self, node: fx.Node, value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (torch.dtype, torch.device)):
            return str(value)
        return self.refuse(node, f"the method returns a {type(value).__name__}, which has no form in a program")

    # -------------------------------------------------------------------------------------------------------- the nodes

    def _node(self, node: fx.Node) -> None:
        if node.op == "get_attr":
            held = _attribute(node)
            if isinstance(held, torch.Tensor):
                self._pending[node] = lambda: self._constant_attribute(node, held)
            return  # sub-graphs and lowered modules are looked up by the nodes that use them
        if node.op != "call_function":
            self.refuse(node, f"a node of kind {node.op} cannot be lowered")
        target = node.target
        if getattr(target, "__name__", "") == "getitem":
            container = self.value(node.args[0])
            self._value[node] = container[node.args[1]]
        elif target is executorch_call_delegate:
            self._delegate(node)
        elif is_symbolic(target):
            self._value[node] = emit_symbolic(self, node)
        elif target in CHECKS:
            emit_check(self, node)
        elif isinstance(target, OpOverload):
            self._operator(node, target)
        elif (changing := operator_of(node)) is not None:
            self._changing_operator(node, changing)
        elif isinstance(target, HigherOrderOperator):
            self._value[node] = import_control_flow(self, node)
        else:
            self.refuse(node, f"the call of {target} is no operator")

    def _operator(self, node: fx.Node, target: OpOverload) -> None:
        arguments = SchemaArguments.of(target).fill(self, node)
        results = node.meta.get("val")
        if isinstance(results, (list, tuple)):
            kinds = [self.type_of(node, r if r is not None else _left_out(results)) for r in results]
            self._value[node] = self.emit(node, operator_name(target), arguments, kinds)
        else:
            self._value[node] = self.emit(node, operator_name(target), arguments, [self.type_of(node, results)])[0]

    def _changing_operator(self, node: fx.Node, op: OpOverload) -> None:
        """An operator that changes arguments: its results, then their new values (in_place.py)."""
        arguments = SchemaArguments.of(op).fill(self, node, (), node.kwargs)
        values = node.meta["val"]
        kinds = [self.type_of(node, value) for value in values if value is not None]
        results = iter(self.emit(node, operator_name(op), arguments, kinds))
        self._value[node] = [None if value is None else next(results) for value in values]

    def _delegate(self, node: fx.Node) -> None:
        lowered = _attribute(node.args[0])
        for version in getattr(lowered, "versions", ()):
            version.require_unchanged("to_backend()")
        source = source_of(node)
        values = node.meta["val"]
        several = isinstance(values, (list, tuple))
        kinds = [self.type_of(node, value) for value in (values if several else [values])]
        args = [self.value(argument) if isinstance(argument, fx.Node) else argument for argument in node.args[1:]]
        handle, results = self.builder.delegate(
            lowered.backend_id,
            bytes(lowered.processed_bytes),
            [(spec.key, bytes(spec.value)) for spec in lowered.compile_specs],
            args,
            [(node.name, kind) for kind in kinds],
            source,
            _steps_of(lowered),
        )
        self._remember(handle, node)
        self._imported.delegates.append(lowered)
        for key, data in getattr(lowered, "named_data", {}).items():
            if self._named_data.setdefault(key, data) != data:
                raise InvalidArgumentError(f"two delegates put different data under the key '{key}'")
        self._value[node] = results if several else results[0]

    def _constant_attribute(self, node: fx.Node, tensor: torch.Tensor) -> Any:
        kept = tensor.detach().cpu().contiguous()
        symbol = self._state.reserve(f"{self.name}.{node.target}")
        kind = (dtype_code(kept.dtype), list(kept.shape))
        data = kept.data_ptr() if kept.numel() else 0
        return self.builder.constant(symbol, kind, data, kept, self._file_of(node, symbol, kept))

    # ----------------------------------------------------------------------------------- used by the neighbouring files

    def value(self, node: fx.Node) -> Any:
        """The IR value (or list of values) of an fx node."""
        known = self._value.get(node)
        if known is None:
            pending = self._pending.get(node)
            if pending is None:
                self.refuse(node, f"'{node.name}' is used as a value, but it has none")
            known = self._value[node] = pending()
        return known

    def set_value(self, node: fx.Node, value: Any) -> None:
        """Binds an fx node (the input of a region, say) to an IR value."""
        self._value[node] = value

    def emit(self, node: fx.Node, op: str, arguments: list[Any], kinds: list[Any]) -> list[Any]:
        """Adds an IR node that stands for (a part of) ``node``; returns its results."""
        tag, source = node.meta.get("delegation_tag") or "", source_of(_served(node))
        handle, results = self.builder.node(op, arguments, [(node.name, kind) for kind in kinds], source, tag)
        self._remember(handle, node)
        return results

    def import_nodes(self, graph: fx.Graph) -> list[Any]:
        """Imports the body of a region, whose placeholders have values already; returns its outputs."""
        for node in graph.nodes:
            if node.op == "output":
                outputs = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
                return [self.value(o) if isinstance(o, fx.Node) else self._literal(node, o) for o in outputs]
            if node.op != "placeholder":
                self._node(node)
        return []

    def _remember(self, handle: int, node: fx.Node) -> None:
        self._imported.handles[handle] = (self.name, node.name, _flat(_served(node).meta.get("debug_handle", 0)))
        self._imported.nodes[handle] = node

    def type_of(self, node: fx.Node, value: Any) -> Any:
        """The IR type of a fake value."""
        if isinstance(value, torch.Tensor):
            if value.dtype.is_complex and self._is_border(node):
                written = self.program.graph_signature.buffers_to_mutate.get(node.name)
                self.refuse(
                    node,
                    "a complex input or output has no form in a program; use torch.view_as_real"
                    if written is None
                    else f"buffer '{written}' is complex and the method writes it, which has no form in a program; "
                    "register torch.view_as_real of it, and use torch.view_as_complex where it is read",
                )
            if value.layout != torch.strided:
                self.refuse(
                    node, f"tensors of layout {value.layout} have no form in a program; convert to a dense tensor"
                )
            if value.dim() > _MAX_RANK:
                self.refuse(
                    node,
                    f"a tensor of {value.dim()} dimensions has no form in a program, which takes up to {_MAX_RANK}",
                )
            code = dtype_code(value.dtype)
            if code is None:
                self.refuse(node, f"dtype {value.dtype} is not supported; convert the tensor to another one")
            return (code, [self.symbols.dim(size) for size in value.shape])
        if isinstance(value, torch.SymInt):
            return ("int", self.symbols.dim(value, is_size=False))
        if isinstance(value, (torch.SymBool, bool)):
            return "bool"
        if isinstance(value, int):
            return ("int", value)
        if isinstance(value, (torch.SymFloat, float)):
            return "double"
        if value is None:
            return "none"
        return self.refuse(node, f"a value of type {type(value).__name__} has no form in a program")

    def _is_border(self, node: fx.Node) -> bool:
        """Whether the caller sees the value; what goes into a branch or body and comes out of it stays inside."""
        at_end = node.op == "placeholder" or any(user.op == "output" for user in node.users)
        return at_end and node.graph is self.program.graph

    def refuse(self, node: fx.Node, reason: str) -> Any:
        """Raises NotSupportedError with the node's operator, source line and module path."""
        source: Source = source_of(node)
        op = operator_name(node.target) if isinstance(node.target, OpOverload) else str(node.target)
        raise NotSupportedError(
            f"method '{self.name}', {op} at {source}: {reason}",
            diagnostics=[
                Diagnostic(
                    reason,
                    ErrorCode.NotSupported,
                    method=self.name,
                    op=op,
                    node=node.name,
                    module_path=source.module_path or None,
                    file=source.file or None,
                    line=source.line or None,
                )
            ],
        )


def dim_order_of(value: torch.Tensor) -> list[int]:
    """Dims from outermost to innermost; only dense permutations are told apart, all else counts as row-major."""
    rank = value.dim()
    if rank < 3 or not all(isinstance(size, int) for size in (*value.shape, *value.stride())):
        return list(range(rank))
    for memory_format in (torch.channels_last,) if rank == 4 else (torch.channels_last_3d,) if rank == 5 else ():
        if value.is_contiguous(memory_format=memory_format) and not value.is_contiguous():
            return [0, *range(2, rank), 1]
    return list(range(rank))


def _left_out(results: Sequence[Any]) -> torch.Tensor:
    """What stands for a result that is not wanted, such as the gradient of a bias that is not there: no elements."""
    dtype = next((r.dtype for r in results if isinstance(r, torch.Tensor)), torch.float32)
    return torch.empty(0, dtype=dtype)


def _attribute(node: fx.Node) -> Any:
    held: Any = node.graph.owning_module
    for part in node.target.split("."):
        held = getattr(held, part)
    return held


def _steps_of(lowered: Any) -> dict[int, tuple[str, Source]]:
    """The backend's own number -> operator and source of the first node that it stands for, where it said so."""
    given = getattr(lowered, "meta", {}).get("debug_handle_map") or {}
    nodes = {
        handle: node
        for node in (lowered.original_module.graph.nodes if given else ())
        if isinstance(node.target, OpOverload)
        for handle in _flat(node.meta.get("debug_handle"))
    }
    found = {number: [nodes[one] for one in _flat(handles) if one in nodes] for number, handles in given.items()}
    return {
        number: (operator_name(stands_for[0].target), source_of(stands_for[0]))
        for number, stands_for in found.items()
        if stands_for and isinstance(number, int) and 0 <= number < 1 << 31
    }


def _served(node: fx.Node) -> fx.Node:
    """What a node of the IR is for: of an input's conversion, the first operator that reads it."""
    return next(iter(node.users), node) if node.op == "placeholder" else node


def _flat(handles: Any) -> tuple[int, ...]:
    """A handle, several or none, as a tuple."""
    return tuple(handles) if isinstance(handles, (list, tuple, set)) else () if handles is None else (handles,)
