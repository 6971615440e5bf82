"""The tensors that a program carries: parameters, buffers and constants of all its methods, told apart by storage.

Two names of one storage are one tensor (tied weights, a module exported twice as two methods); the same name with
another storage is another tensor. A tensor that any method writes, or that an optimizer does because a method returns
its gradient, is a mutable buffer for all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind

from executorch_py import _core
from executorch_py.errors import InvalidStateError, NotSupportedError
from executorch_py.graphs.dtypes import dtype_code

from .training import TRAINED, trained_parameters

_Key = tuple[Any, ...]

_STATE_KINDS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass
class StateTensor:
    """One tensor of a program.

    Attributes:
        symbol: Its name in the program: the fully qualified name in the module.
        source: The module's own tensor.
        tensor: Its content, detached.
        is_mutable: Some method writes it, or an optimizer does.
        is_trained: An optimizer does.
        methods: The methods that use it.
    """

    symbol: str
    source: torch.Tensor
    tensor: torch.Tensor
    is_mutable: bool = False
    is_trained: bool = False
    methods: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class TensorVersion:
    """A weight as it was when something was computed from it.

    Attributes:
        name: Fully qualified name.
        tensor: The weight.
        version: torch's count of its changes in place.
        content: Address and hash of its bytes: torch does not count what is written through ``.data`` or NumPy.
    """

    name: str
    tensor: torch.Tensor
    version: int
    content: tuple[int, int]

    @classmethod
    def of(cls, name: str, tensor: torch.Tensor) -> "TensorVersion":
        """The present version."""
        return cls(name, tensor, tensor._version, _content(tensor))

    def require_unchanged(self, step: str) -> None:
        """Refuses a weight that was changed since, in place or by giving it other data.

        Raises:
            InvalidStateError: It was.
        """
        if self.tensor._version != self.version or _content(self.tensor) != self.content:
            raise InvalidStateError(
                f"'{self.name}' was changed after {step}, which has computed with its old value; lower the program "
                "again"
            )


class ProgramState:
    """All state tensors of a program, by method and by the name that the method's signature uses."""

    def __init__(self, programs: Mapping[str, ExportedProgram]) -> None:
        self._by_key: dict[_Key, StateTensor] = {}
        self._symbols: set[str] = set()
        self._of: dict[tuple[str, str], StateTensor] = {}
        for method, program in programs.items():
            self._collect(method, program)
        self._refuse_overlap()

    def of(self, method: str, spec: InputSpec) -> StateTensor:
        """The tensor behind an input of a method's signature."""
        return self._of[method, spec.target]

    def versions(self) -> list[TensorVersion]:
        """All tensors as they are now; buffers that the program itself changes have their content copied when
        written.
        """
        return [TensorVersion.of(state.symbol, state.source) for state in self._by_key.values()]

    def _reserve_name(self, method: str, name: str) -> str:
        return self.reserve(name if name not in self._symbols else f"{method}.{name}")

    def _collect(self, method: str, program: ExportedProgram) -> None:
        written = {
            spec.target
            for spec in program.graph_signature.output_specs
            if spec.kind in (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)
        }
        trained = {spec.target for spec in _marked(program)}.union(trained_parameters(program))
        mutable_here: dict[int, str] = {}
        for spec in program.graph_signature.input_specs:
            if spec.kind not in _STATE_KINDS:
                continue
            source = _tensor_of(method, program, spec)
            tensor = source.detach().cpu()
            key = _key(tensor)
            state = self._by_key.get(key)
            if state is None:
                state = self._by_key[key] = StateTensor(self._reserve_name(method, spec.target), source, tensor)
            if spec.target in written:
                if id(state) in mutable_here:
                    raise NotSupportedError(
                        f"method '{method}': the buffers '{mutable_here[id(state)]}' and '{spec.target}' are one "
                        "tensor and both are written; give each its own tensor"
                    )
                mutable_here[id(state)] = spec.target
            state.is_trained = state.is_trained or spec.target in trained
            state.is_mutable = state.is_mutable or spec.target in written or state.is_trained
            state.methods.add(method)
            self._of[method, spec.target] = state

    def reserve(self, symbol: str) -> str:
        """A symbol that no other tensor of the program has: ``symbol``, with underscores behind it where it is
        taken.
        """
        while symbol in self._symbols:
            symbol += "_"
        self._symbols.add(symbol)
        return symbol

    def _refuse_overlap(self) -> None:
        """A written tensor that shares memory with another one in part cannot be two tensors of the file."""
        by_storage: dict[int, list[StateTensor]] = {}
        for state in self._by_key.values():
            if state.tensor.numel():
                by_storage.setdefault(state.tensor.untyped_storage().data_ptr(), []).append(state)
        for states in by_storage.values():
            if len(states) > 1 and any(state.is_mutable for state in states):
                names = ", ".join(f"'{state.symbol}'" for state in states)
                raise NotSupportedError(
                    f"{names} are different views of one memory, and one of them is written; make the written buffer a "
                    "clone()"
                )


def same_tensors(program: ExportedProgram) -> dict[fx.Node, fx.Node]:
    """Placeholders of a tensor that an earlier placeholder stands for, too: a buffer that the module holds by a second
    name, which it did not register.
    """
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    first: dict[_Key, fx.Node] = {}
    same: dict[fx.Node, fx.Node] = {}
    for spec in program.graph_signature.input_specs:
        tensor = _held(program, spec)
        if spec.kind in _STATE_KINDS and isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
            node = placeholders[spec.arg.name]
            known = first.setdefault(_key(tensor), node)
            if known is not node:
                same[node] = known
    return same


def mark_trained(programs: Mapping[str, ExportedProgram]) -> None:
    """Marks, in all programs, the placeholders of parameters that one of them is trained by: no backend may keep a
    copy.
    """
    keys = {
        _key(program.state_dict[name].detach().cpu())
        for program in programs.values()
        for name in trained_parameters(program)
    }
    for program in programs.values() if keys else ():
        placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
        for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
            held = _held(program, spec) if spec.kind in _STATE_KINDS else None
            if isinstance(held, torch.Tensor) and held.layout == torch.strided and _key(held.detach().cpu()) in keys:
                node.meta[TRAINED] = True


def _marked(program: ExportedProgram) -> list[InputSpec]:
    """The inputs of a signature that :func:`mark_trained` marked."""
    placeholders = (node for node in program.graph.nodes if node.op == "placeholder")
    specs = program.graph_signature.input_specs
    return [spec for node, spec in zip(placeholders, specs, strict=False) if node.meta.get(TRAINED)]


def _content(tensor: torch.Tensor) -> tuple[int, int]:
    """Address and hash of a tensor's bytes."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided or tensor.numel() == 0:
        return (0, 0)
    dense = tensor.detach().contiguous()
    return (tensor.data_ptr(), _core.content_hash(dense.data_ptr(), dense.nbytes))


def _key(tensor: torch.Tensor) -> _Key:
    if tensor.numel() == 0:
        return (id(tensor),)
    return (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride())


def _held(program: ExportedProgram, spec: InputSpec) -> Any:
    """What a program holds for an input of its signature; None where it holds nothing."""
    held = program.constants.get(spec.target)
    return program.state_dict.get(spec.target) if held is None else held


def _tensor_of(method: str, program: ExportedProgram, spec: InputSpec) -> torch.Tensor:
    """The tensor itself, checked: dense, with data, of plain type."""
    tensor = _held(program, spec)
    where = f"method '{method}', {spec.kind.name.lower()} '{spec.target}'"
    if tensor is None:
        raise InvalidStateError(f"{where}: the program carries no tensor of that name")
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise NotSupportedError(
            f"{where} is a {type(tensor).__name__}; call torchao's unwrap_tensor_subclass() on the model before "
            "exporting it"
        )
    require_storable(where, tensor)
    return tensor


def require_storable(where: str, tensor: torch.Tensor) -> None:
    """Refuses what a file cannot hold.

    Raises:
        NotSupportedError: The tensor has no dense data, or a dtype that programs have not.
    """
    if tensor.is_meta or tensor.layout != torch.strided:
        raise NotSupportedError(f"{where} has no dense data ({tensor.layout}, device {tensor.device})")
    if dtype_code(tensor.dtype) is None:
        raise NotSupportedError(f"{where} has dtype {tensor.dtype}, which no program has; convert it to another one")
