"""Follows channels through a model: which rows and columns of which weights go together.

A model's graph runs once on the example, and beside each tensor goes a label for each index of its dimensions: the
channel of the layer that the index is. What moves elements moves labels, what joins tensors element by element makes
one channel of two, and layers say which channels their columns take. All elements of a tensor that are left must still
be a box, so where a reshape puts a layer's channels along two dimensions, those of the smaller one go together.

>>> found = follow(model, (image,))  # doctest: +SKIP
>>> found.cuts["up.weight"][0]  # the channel of each row  # doctest: +SKIP
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import torch
from torch import fx, nn

from executorch_py.errors import NotSupportedError
from executorch_py.graphs.nodes import arguments_of

from .channel_operators import ALONG, CONVOLUTIONS, MADE, MOVES, REDUCTIONS, SPATIAL, STAYS, TAKES

aten = torch.ops.aten

#: A label of what is no channel that could go: its extent is written somewhere.
FIXED = 0
#: The labels of a tensor: dimension -> int64 [size]. Other dimensions are none of channels.
Labels = dict[int, torch.Tensor]

#: torch.export cannot run on two threads.
_EXPORT_LOCK = threading.Lock()


class Channels:
    """Labels that belong together, and why some of them stay.

    Attributes:
        cuts: Parameter or buffer -> dimension -> the label of each index.
        columns: Parameter -> the dimension of it that takes channels.
        rows: Layer -> the labels of its output channels.
        shapes: Layer norm without parameters -> its dimensions from the end -> labels.
        mixed: Labels whose number a result depends on: without them it is another.
        placed: Labels that were moved by their places.
    """

    def __init__(self) -> None:
        self._parent = [FIXED]
        self._why: dict[int, str] = {}
        self.cuts: dict[str, Labels] = {}
        self.columns: dict[str, int] = {}
        self.rows: dict[str, torch.Tensor] = {}
        self.shapes: dict[str, Labels] = {}
        self.mixed: set[int] = set()
        self.placed: set[int] = set()

    def new(self, count: int) -> torch.Tensor:
        """Labels that are not in use, [count]."""
        first = len(self._parent)
        self._parent += range(first, first + count)
        return torch.arange(first, first + count)

    def find(self, label: int) -> int:
        """The one that stands for all labels that this one goes with."""
        while self._parent[label] != label:
            self._parent[label] = self._parent[self._parent[label]]
            label = self._parent[label]
        return label

    def join(self, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        """Makes labels of two tensors go together, place by place, [n] each. Returns one for each place."""
        for a, b in torch.stack([first, second], 1)[first != second].tolist():
            a, b = self.find(a), self.find(b)
            if FIXED in (a, b):
                self.fix((a, b), "they meet numbers whose size is fixed, such as an input or a parameter of the model")
            elif a != b:
                self._parent[b] = a
                reasons = self._why.pop(a, None), self._why.pop(b, None)
                if reasons != (None, None):
                    self._why[a] = reasons[0] or reasons[1] or ""
        return torch.where(second == FIXED, second, first)

    def fix(self, labels: Iterable[int], why: str) -> None:
        """Labels that stay, and why; "" where nobody needs to be told."""
        for label in {self.find(int(one)) for one in labels} - {FIXED}:
            self._why[label] = self._why.get(label) or why

    def why_fixed(self, label: int) -> str | None:
        """Why a label stays; None where it may go."""
        return self._why.get(self.find(label))


def follow(model: nn.Module, example_inputs: tuple[Any, ...]) -> Channels:
    """The channels of a model in evaluation mode.

    Raises:
        NotSupportedError: torch.export cannot take the model.
    """
    try:
        with _EXPORT_LOCK:
            program = torch.export.export(model, example_inputs, strict=False)
    except Exception as error:
        raise NotSupportedError(
            "channels are followed through the graph of torch.export, which does not take the model: "
            f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"
        ) from error
    graph = program.module(check_guards=False)
    assert isinstance(graph, fx.GraphModule)
    follower = _Follower(graph, model)
    with torch.no_grad():
        follower.run(*example_inputs)
    return follower.channels


class _Follower(fx.Interpreter):
    """Runs a graph, and has labels for each of its tensors."""

    def __init__(self, graph: fx.GraphModule, model: nn.Module) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.channels = Channels()
        self._labels: dict[fx.Node, Any] = {}  # a list of Labels where the value is a list
        self._made: set[fx.Node] = set()
        self._modules = dict(model.named_modules())
        first: dict[int, str] = {}
        tensors = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
        self._names = {name: first.setdefault(id(tensor), name) for name, tensor in tensors}

    def run_node(self, n: fx.Node) -> Any:
        """Runs one node and follows its channels."""
        value = super().run_node(n)
        self.env[n] = value
        if n.op == "call_function":
            self._labels[n] = self._follow(n, value)
        elif n.op == "output":
            self._fix(n, "")
        return value

    # -------------------------------------------------------------------------------------------------------- the rules

    def _follow(self, n: fx.Node, value: Any) -> Any:
        target: Any = n.target
        if getattr(target, "__name__", "") == "getitem":
            given: Any = n.args
            source = self._labels.get(given[0])
            return source[given[1]] if isinstance(source, list) else {}
        packet = self._packet(target)
        if packet in MADE:
            self._made.add(n)
            return {}
        if packet is aten.linear:
            return self._linear(n)
        if packet in CONVOLUTIONS:
            return self._convolution(n, *CONVOLUTIONS[packet])
        if packet in (aten.batch_norm, aten.instance_norm, aten.group_norm, aten.prelu):
            return self._norm_of_channels(n, packet)
        if packet in (aten.layer_norm, aten.rms_norm):
            return self._norm_of_ends(n)
        if packet in (aten.cat, aten.stack, aten.concat):
            return self._cat(n, value, packet is aten.stack)
        if packet in (aten.matmul, aten.bmm, aten.scaled_dot_product_attention):
            return self._product(n, value, packet)
        if packet in MOVES:
            return self._moved(n, value)
        if packet in TAKES:
            return self._taken(n, value)
        if packet in STAYS:
            return self._of(n.args[0])
        if packet is aten.glu:
            return self._glu(n)
        if packet in REDUCTIONS and len(n.all_input_nodes) == 1:
            return self._reduced(n, value)
        if packet in ALONG:
            dim = arguments_of(n)["dim"] % self._value(n.args[0]).dim()
            self._mix(self._of(n.args[0]).get(dim, ()))
            return self._of(n.args[0]) if isinstance(value, torch.Tensor) else [self._of(n.args[0])] * len(value)
        if packet in SPATIAL or packet in (aten.pad, aten.constant_pad_nd):
            return self._spatial(n, value, packet)
        if torch.Tag.pointwise in self._tags(target):
            return self._pointwise(n, value)
        self._fix(n, f"they go through {target}, behind which channels are not followed")
        return {}

    def _pointwise(self, n: fx.Node, value: torch.Tensor) -> Labels:
        found: Labels = {}
        tensors = [s for s in n.all_input_nodes if isinstance(self._value(s), torch.Tensor) and s not in self._made]
        tensors = [s for s in tensors if self._value(s).dim() > 0]
        for dim in range(value.dim()):
            labels = [one for s in tensors if (one := self._at(s, dim, value.dim())) is not None]
            if any(bool(one.any()) for one in labels):
                found[dim] = self._joined(labels)
        return found

    def _at(self, source: fx.Node, dim: int, rank: int) -> torch.Tensor | None:
        """The labels of a source along a dimension of a result that it is broadcast to; None where it has one element
        there.
        """
        tensor = self._value(source)
        own = dim - (rank - tensor.dim())
        if own < 0 or tensor.shape[own] == 1:
            return None
        return self._of(source).get(own, torch.full((tensor.shape[own],), FIXED))

    def _joined(self, labels: list[torch.Tensor]) -> torch.Tensor:
        whole = labels[0]
        for other in labels[1:]:
            whole = self.channels.join(whole, other)
        return whole

    def _linear(self, n: fx.Node) -> Labels:
        x, weight, bias = (*n.args, None)[:3]
        found = dict(self._of(x))
        last = self._value(x).dim() - 1
        rows = self._layer(weight, bias, 0, 1, found.pop(last, None))
        return found if rows is None else {**found, last: rows}

    def _convolution(self, n: fx.Node, spatial: int, transposed: bool) -> Labels:
        given = arguments_of(n)
        x, weight, groups = given["input"], given["weight"], given.get("groups", 1)
        found = self._outside(x, spatial)
        channel = self._value(x).dim() - spatial - 1
        columns = found.pop(channel, None)
        rows = self._layer(weight, given.get("bias"), int(transposed), int(not transposed), columns, groups, transposed)
        return found if rows is None else {**found, channel: rows}

    def _layer(
        self,
        weight: Any,
        bias: Any,
        row: int,
        column: int,
        columns: torch.Tensor | None,
        groups: int = 1,
        transposed: bool = False,
    ) -> torch.Tensor | None:
        """Labels of the result of a product with a weight, [rows]; None where they stay."""
        channels = self.channels
        owner = self._owner(weight)
        module = None if owner is None else self._modules[owner]
        if not isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)) or self._in_attention(owner):
            if columns is not None:
                attention = owner is not None and self._in_attention(owner, itself=True)
                what = "the width of an attention layer" if attention else "the size of a parameter of the model"
                channels.fix(columns.tolist(), f"they are {what}")
            return None
        assert owner is not None
        shape = self._value(weight).shape
        num_rows = shape[row] * groups if transposed else shape[row]
        num_columns = shape[column] if transposed else shape[column] * groups
        name = self._names[str(weight.target)]
        if owner not in channels.rows:
            channels.rows[owner] = channels.new(num_rows)
            if groups not in (1, num_columns):
                self._equal_in_groups(channels.rows[owner], groups)
        rows = channels.rows[owner]
        if columns is None:
            columns = torch.full((num_columns,), FIXED)
        if groups == num_columns and groups > 1:  # a filter or several for each channel
            rows = channels.join(columns.repeat_interleave(num_rows // groups), rows)
            channels.rows[owner] = torch.where(rows == FIXED, channels.rows[owner], rows)
            self._cut(name, 0, rows)
        else:
            if groups > 1:
                self._equal_in_groups(columns, groups)
            self._cut(name, row, rows[: shape[row]])
            self._cut(name, column, columns[: shape[column]])
            channels.columns[name] = column
        if isinstance(bias, fx.Node):
            if self._owner(bias) != owner:
                channels.fix(rows.tolist(), "they are the size of a parameter of the model")
            else:
                self._cut(self._names[str(bias.target)], 0, rows)
        return rows

    def _equal_in_groups(self, labels: torch.Tensor, groups: int) -> None:
        """Of each group go as many: those at one place of the groups."""
        parts = labels.reshape(groups, -1)
        for part in parts[1:]:
            self.channels.join(parts[0], part)

    def _norm_of_channels(self, n: fx.Node, packet: Any) -> Labels:
        x = n.args[0]
        labels = self._of(x).get(1)
        if packet is aten.group_norm and labels is not None:
            self._equal_in_groups(labels, arguments_of(n)["num_groups"])
            self._mix(labels)
        for parameter in n.all_input_nodes[1:]:
            if labels is not None and self._value(parameter).numel() > 1:
                self._parameter(parameter, 0, labels)
        return self._of(x)

    def _norm_of_ends(self, n: fx.Node) -> Labels:
        x, ends = n.args[0], len(n.args[1])  # type: ignore[arg-type]
        rank = self._value(x).dim()
        for dim, labels in self._of(x).items():
            if dim < rank - ends:
                continue
            self._mix(labels)
            for parameter in n.all_input_nodes[1:]:
                self._parameter(parameter, dim - (rank - ends), labels)
            path = self._module_of(n)
            if isinstance(self._modules.get(path), (nn.LayerNorm, nn.RMSNorm)):
                known = self.channels.shapes.setdefault(path, {})
                end = dim - (rank - ends)
                known[end] = labels if end not in known else self.channels.join(known[end], labels)
            else:
                self.channels.fix(labels.tolist(), "they are a size that a norm in the code has")
        return self._of(x)

    def _parameter(self, parameter: fx.Node, dim: int, labels: torch.Tensor) -> None:
        owner = self._owner(parameter)
        known = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm, nn.PReLU)
        if owner is not None and isinstance(self._modules[owner], known):
            self._cut(self._names[str(parameter.target)], dim, labels)
        else:
            self.channels.fix(labels.tolist(), "they are the size of a parameter of the model")

    def _cut(self, name: str, dim: int, labels: torch.Tensor) -> None:
        cuts = self.channels.cuts.setdefault(name, {})
        cuts[dim] = self.channels.join(cuts[dim], labels) if dim in cuts else labels

    def _cat(self, n: fx.Node, value: torch.Tensor, stacked: bool) -> Labels:
        parts: Any = n.args[0]
        along = arguments_of(n)["dim"] % value.dim()
        found: Labels = {}
        for dim in range(value.dim()):
            if stacked and dim == along:
                continue
            own = dim - 1 if stacked and dim > along else dim
            parts = [p for p in parts if self._value(p).dim() > own]
            labels = [
                self._of(p).get(own, torch.full((self._value(p).shape[own],), FIXED))
                for p in parts
                if p not in self._made or dim == along
            ]
            if any(bool(one.any()) for one in labels):
                found[dim] = torch.cat(labels) if dim == along else self._joined(labels)
        return found

    def _product(self, n: fx.Node, value: torch.Tensor, packet: Any) -> Labels:
        """Batches meet element by element; the dimension that is summed over meets, too."""
        factors: list[Any] = list(n.args[:2])
        a, b = factors
        if packet is aten.scaled_dot_product_attention:
            a, key, b, mask, *_ = arguments_of(n).values()
            factors = [a, key, b]
            self._fix_of(mask, "they go into the mask of an attention")
            self._meet(a, -1, key, -1)
            self._mix(self._of(a).get(self._value(a).dim() - 1, ()))
            self._meet(key, -2, b, -2)
            first, last = self._of(a).get(self._value(a).dim() - 2), self._of(b).get(self._value(b).dim() - 1)
        elif min(self._value(a).dim(), self._value(b).dim()) < 2:
            self._fix(n, f"they go through {n.target} with a vector")
            return {}
        else:
            self._meet(a, -1, b, -2)
            self._mix(self._of(a).get(self._value(a).dim() - 1, ()))
            first, last = self._of(a).get(self._value(a).dim() - 2), self._of(b).get(self._value(b).dim() - 1)
        found: Labels = {}
        rank = value.dim()
        for dim in range(rank - 2):
            labels = [one for s in factors if (one := self._at(s, dim, rank)) is not None]
            if any(bool(one.any()) for one in labels):
                found[dim] = self._joined(labels)
        ends = {rank - 2: first, rank - 1: last}
        found.update({dim: ids for dim, ids in ends.items() if ids is not None})
        return found

    def _meet(self, a: Any, dim: int, b: Any, other: int) -> None:
        x, y = self._value(a), self._value(b)
        first, second = self._of(a).get(dim % x.dim()), self._of(b).get(other % y.dim())
        if first is not None or second is not None:
            fixed = torch.full((x.shape[dim],), FIXED)
            self.channels.join(fixed if first is None else first, fixed if second is None else second)

    def _moved(self, n: fx.Node, value: Any) -> Any:
        x = n.args[0]
        args: Any
        args, kwargs = fx.map_arg((n.args[1:], n.kwargs), self._value)
        several = isinstance(value, (list, tuple))
        found: list[Labels] = [{} for _ in (value if several else (value,))]
        if self._packet(n.target) is aten.slice:
            given = arguments_of(n)
            self._equal_in_steps(self._of(x).get(given["dim"] % self._value(x).dim()), self._value(given["step"]))
        for full in self._spread(x):
            moved = n.target(full, *args, **kwargs)  # type: ignore[operator]
            if several and len({part.shape for part in moved}) == 1:  # of each part go as many
                boxes = [self._box(part) for part in moved]
                for dim in {d for box in boxes for d in box}:
                    self._joined([b[dim] for b in boxes if dim in b])
            for labels, part in zip(found, moved if several else (moved,), strict=True):
                for dim, ids in self._box(part).items():
                    labels[dim] = ids if dim not in labels else self.channels.join(labels[dim], ids)
        for labels in found:
            self._note_places(self._of(x), labels)
        return found if several else found[0]

    def _equal_in_steps(self, labels: torch.Tensor | None, step: int) -> None:
        """Which channel is every other one depends on all before it: those of a step go together."""
        if labels is not None and step > 1:
            for start in range(0, len(labels), step):
                part = labels[start : start + step]
                self.channels.join(part[:1].expand_as(part), part)

    def _note_places(self, before: Labels, after: Labels) -> None:
        known = {tuple(labels.tolist()) for labels in before.values()}
        for labels in after.values():
            if tuple(labels.tolist()) not in known:
                self.channels.placed.update(labels.tolist())

    def _taken(self, n: fx.Node, value: torch.Tensor) -> Labels:
        """Elements by their places: where these are channels, all of them stay."""
        x, found = n.args[0], {}
        args: Any
        args, kwargs = fx.map_arg((n.args[1:], n.kwargs), self._value)
        for source in n.all_input_nodes[1:]:
            self._fix_of(source, "they choose elements of a tensor by their places")
        for labels, full in zip(self._of(x).values(), self._spread(x), strict=True):
            moved = n.target(full, *args, **kwargs)  # type: ignore[operator]
            at = [d for d in range(moved.dim()) if moved.shape[d] == len(labels) and self._runs_along(moved, d, labels)]
            if at:
                found[at[0]] = labels
            else:
                self.channels.fix(labels.tolist(), f"{n.target} takes some of them by their places")
        return found

    @staticmethod
    def _runs_along(full: torch.Tensor, dim: int, labels: torch.Tensor) -> bool:
        shape = [-1 if d == dim else 1 for d in range(full.dim())]
        return bool((full == labels.reshape(shape)).all())

    def _glu(self, n: fx.Node) -> Labels:
        x = n.args[0]
        dim = arguments_of(n)["dim"] % self._value(x).dim()
        found = dict(self._of(x))
        if dim in found:
            first, second = found[dim].chunk(2)
            self.channels.placed.update(found[dim].tolist())
            found[dim] = self.channels.join(first, second)
        return found

    def _reduced(self, n: fx.Node, value: Any) -> Any:
        x = n.args[0]
        rank = self._value(x).dim()
        given = arguments_of(n).get("dim")
        dims = given if isinstance(given, (list, tuple)) else [] if given is None else [given]
        gone = {d % rank for d in dims} or set(range(rank))
        first = value if isinstance(value, torch.Tensor) else value[0]
        keeps = first.dim() == rank
        found: Labels = {}
        for dim, labels in self._of(x).items():
            if dim in gone:
                self._mix(labels)
            else:
                found[dim if keeps else dim - sum(g < dim for g in gone)] = labels
        return found if isinstance(value, torch.Tensor) else [found] * len(value)

    def _spatial(self, n: fx.Node, value: Any, packet: Any) -> Any:
        spatial = SPATIAL.get(packet)
        if spatial is None:  # padding, from the last dimension on
            pads: Any = n.args[1]
            spatial = max((i // 2 + 1 for i, pad in enumerate(pads) if pad), default=0)
        found = self._outside(n.args[0], spatial)
        return found if isinstance(value, torch.Tensor) else [found] * len(value)

    def _outside(self, x: Any, spatial: int) -> Labels:
        """Labels of the dimensions before the last ones; channels that lie along those stay."""
        border = self._value(x).dim() - spatial
        for dim, labels in self._of(x).items():
            if dim >= border:
                self.channels.fix(labels.tolist(), "they lie where an operator slides a window, or pads")
        return {dim: labels for dim, labels in self._of(x).items() if dim < border}

    # ----------------------------------------------------------------------------------------------------------- labels

    def _spread(self, x: Any) -> list[torch.Tensor]:
        """The labels of each dimension as a tensor of the value's shape."""
        shape = self._value(x).shape
        return [
            labels.reshape([-1 if d == dim else 1 for d in range(len(shape))]).expand(shape)
            for dim, labels in self._of(x).items()
        ]

    def _box(self, full: torch.Tensor) -> Labels:
        """Labels by dimension of a tensor of labels. Where they lie along several, those of the fewest go together."""
        if not full.numel() or not bool(full.any()):
            return {}
        varying = [d for d in range(full.dim()) if full.shape[d] > 1 and bool((full != full.narrow(d, 0, 1)).any())]
        if not varying:
            self.channels.fix([int(full.reshape(-1)[0])], "one of them is taken by its place")
            return {}
        for d in set(range(full.dim())) - set(varying):
            full = full.narrow(d, 0, 1)
        dim = max(
            varying, key=lambda d: (full.movedim(d, 0).reshape(full.shape[d], -1)[:, 0].unique().numel(), full.shape[d])
        )
        for other in varying:
            if other != dim:
                first = full.narrow(other, 0, 1).expand_as(full).reshape(-1)
                self.channels.join(first, full.reshape(-1))
                self.channels.placed.update(first.tolist())
        return {dim: full.movedim(dim, 0).reshape(full.shape[dim], -1)[:, 0].contiguous()}

    def _mix(self, labels: Any) -> None:
        self.channels.mixed.update(int(one) for one in labels)

    def _fix(self, n: fx.Node, why: str) -> None:
        for source in n.all_input_nodes:
            self._fix_of(source, why)

    def _fix_of(self, source: Any, why: str) -> None:
        labels = self._labels.get(source, {})
        for one in labels if isinstance(labels, list) else [labels]:
            for ids in one.values():
                self.channels.fix(ids.tolist(), why)

    def _of(self, source: Any) -> Labels:
        labels = self._labels.get(source, {})
        return labels if isinstance(labels, dict) else {}

    def _value(self, source: Any) -> Any:
        return self.env[source] if isinstance(source, fx.Node) else source

    # ------------------------------------------------------------------------------------------------------ who is who

    def _owner(self, node: Any) -> str | None:
        """The module whose parameter or buffer a node is."""
        if not isinstance(node, fx.Node) or node.op != "get_attr" or str(node.target) not in self._names:
            return None
        return self._names[str(node.target)].rpartition(".")[0]

    def _in_attention(self, path: str | None, itself: bool = False) -> bool:
        if path is None:
            return False
        parts = path.split(".")
        outer = [".".join(parts[:i]) for i in range(len(parts) + itself)]
        return any(isinstance(self._modules.get(one), nn.MultiheadAttention) for one in outer)

    @staticmethod
    def _module_of(n: fx.Node) -> str:
        stack = list((n.meta.get("nn_module_stack") or {}).values())
        return stack[-1][0].removeprefix("L['self'].").removeprefix("L['self']") if stack else ""

    @staticmethod
    def _packet(target: Any) -> Any:
        packet = getattr(target, "overloadpacket", target)
        name = getattr(packet, "__name__", "")
        return getattr(aten, name[:-1], packet) if name.endswith("_") and not name.endswith("__") else packet

    def _tags(self, target: Any) -> Iterable[Any]:
        tags = list(getattr(target, "tags", ()))
        packet = self._packet(target)
        if hasattr(packet, "overloads"):
            tags += [tag for overload in packet.overloads() for tag in getattr(packet, overload).tags]
        return tags
