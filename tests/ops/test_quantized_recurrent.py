"""Recurrent layers on integers, with float states or integer ones: equal to their steps, plain and fast."""

from __future__ import annotations

import itertools

import pytest
import torch

from .kernel_runner import KernelError, kernel_count, prepare_and_run, run_kernel

NOT_SUPPORTED = 0x10


class Numbers:
    """Scales, zero points and ranges of a layer of signed integers, or of unsigned ones."""

    def __init__(self, dtype: torch.dtype) -> None:
        low = torch.iinfo(dtype).min
        self.range = (low, low + 255)
        self.input, self.state = (0.04, low + 130), (0.008, low + 125)
        self.product, self.sum = (0.05, low + 131, *self.range), (0.06, low + 124, low + 8, low + 248)


#: Codes of element types in the operators that convert.
DTYPES = {torch.uint8: 0, torch.int8: 1}


#: What load computes with: weights, products of a first state, and the scales before and behind them.
CONSTANT = {"lstm": {1, 5, 6, 9, 10, 11, 12, 13, 17}, "gru": {1, 4, 5, 8, 9, 10, 11, 12}}


def integers(*size: int, dtype: torch.dtype = torch.int8) -> torch.Tensor:
    low = -128 if dtype is torch.int8 else 0
    return torch.randint(low, low + 256, size).to(dtype)


def run(name: str, arguments: list, fast: bool) -> None:
    """The first kernel that fits, or the plain one."""
    last = kernel_count(name) - 1
    for place in range(0 if fast else last, last + 1):
        try:
            return prepare_and_run(name, place, arguments, "", set())
        except KernelError as error:
            if place == last or error.code != NOT_SUPPORTED:
                raise


class Layer:
    """Arguments of a call."""

    def __init__(
        self, kind: str, steps: int, batch: int, hidden: int, bias: bool, first: bool, dtype: torch.dtype = torch.int8
    ) -> None:
        self.dtype, self.numbers = dtype, Numbers(dtype)
        self.kind, self.gates, self.hidden = kind, 4 if kind == "lstm" else 3, hidden
        rows = self.gates * hidden
        self.input, self.weight = integers(steps, batch, rows, dtype=dtype), integers(rows, hidden)
        self.scales = torch.rand(rows) * 4e-3 + 1e-4
        self.bias = torch.randint(-3000, 3000, (rows,), dtype=torch.int32) if bias else None
        self.state, self.cell = torch.randn(batch, hidden), torch.randn(batch, hidden)
        self.first = None
        if first:
            self.first = integers(rows, dtype=dtype) if kind == "lstm" else torch.randn(batch, rows)

    def arguments(self, reverse: bool) -> list:
        is_lstm, n = self.kind == "lstm", self.numbers
        states = torch.full((len(self.input), *self.state.shape), torch.nan)
        return [
            self.input, *n.input, self.state, *([self.cell] if is_lstm else []), *n.state, *n.range, self.weight,
            self.scales,
            self.bias, self.first, *n.product, *(n.sum if is_lstm else ()), reverse, states,
            *([torch.full_like(self.cell, torch.nan)] if is_lstm else []),
        ]  # fmt: skip

    def in_steps(self, reverse: bool, fast: bool) -> list[torch.Tensor]:
        """The results by one kernel after the other."""
        n, dtype = self.numbers, DTYPES[self.dtype]
        state, cell, states = self.state, self.cell, {}
        order = range(len(self.input))
        for i, t in enumerate(reversed(order) if reverse else order):
            product = torch.empty_like(self.input[t])
            if i > 0 or self.first is None:
                q = torch.empty(state.shape, dtype=self.dtype)
                run("quantized_decomposed::quantize_per_tensor.out", [state, *n.state, *n.range, dtype, q], fast)
                layer = [q, *n.state, self.weight, self.scales, self.bias, *n.product, product]
                run("et::quantized_linear.out", layer, False)
            after = torch.empty_like(state)
            assert kernel_count(f"et::{self.kind}_gates.out") == 2
            if self.kind == "lstm":
                if i == 0 and self.first is not None:
                    product = self.first.expand_as(product).clone()
                total, gates, c = torch.empty_like(product), torch.empty(product.shape), torch.empty_like(cell)
                pair = [product, *n.product[:2], self.input[t].clone(), *n.input, *n.sum, total]
                run("et::quantized_add.out", pair, fast)
                run(
                    "quantized_decomposed::dequantize_per_tensor.out",
                    [total, *n.sum[:2], *n.range, dtype, None, gates],
                    fast,
                )
                run("et::lstm_gates.out", [gates, cell, after, c], fast)
                cell = c
            else:
                given, own = torch.empty(product.shape), torch.empty(product.shape)
                dequantize = "quantized_decomposed::dequantize_per_tensor.out"
                run(dequantize, [self.input[t].clone(), *n.input, *n.range, dtype, None, given], fast)
                run(dequantize, [product, *n.product[:2], *n.range, dtype, None, own], fast)
                if i == 0 and self.first is not None:
                    own = self.first
                run("et::gru_gates.out", [given, own, state, after], fast)
            states[t] = state = after
        return [torch.stack([states[t] for t in order]), *([cell] if self.kind == "lstm" else [])]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_equal_to_its_steps(kind: str, fast: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for batch, hidden, bias, first, reverse in itertools.product(
        (1, 2, 5), (1, 7, 16, 33), (False, True), (False, True), (False, True)
    ):
        layer = Layer(kind, 3, batch, hidden, bias, first, dtype)
        arguments = layer.arguments(reverse)
        name = f"et::quantized_{kind}.out"
        prepare_and_run(name, 0 if fast else kernel_count(name) - 1, arguments, "", CONSTANT[kind])
        found = arguments[-2:] if kind == "lstm" else arguments[-1:]
        for ours, exact in zip(found, layer.in_steps(reverse, fast), strict=True):
            assert torch.equal(ours, exact), (batch, hidden, bias, first, reverse, (ours - exact).abs().max())


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_no_steps_and_no_sequences(kind: str) -> None:
    for steps, batch in ((0, 2), (2, 0)):
        layer = Layer(kind, steps, batch, 8, True, False)
        arguments = layer.arguments(False)
        run_kernel(f"et::quantized_{kind}.out", arguments)
        if kind == "lstm":
            assert torch.equal(arguments[-1], layer.cell)
    layer.input = torch.empty(1 << 40, 0, layer.gates * 8, dtype=torch.int8)
    run_kernel(f"et::quantized_{kind}.out", layer.arguments(True))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_refuses_what_does_not_fit(kind: str) -> None:
    layer = Layer(kind, 3, 2, 8, True, True)
    rows = layer.gates * 8
    changes = {
        "input": [integers(3, 2, rows - 1), integers(3, 2, 2 * rows), integers(2, rows), torch.zeros(3, 2, rows)],
        "state": [torch.zeros(2, 7), torch.zeros(3, 8), torch.zeros(2, 8).double(), torch.zeros(2, 2, 8)],
        "weight": [integers(rows, 7), integers(rows - 1, 8), torch.zeros(rows, 8), integers(rows * 8)],
        "scales": [torch.ones(rows - 1), torch.ones(rows).double()],
        "bias": [torch.ones(rows), torch.zeros(rows - 1, dtype=torch.int32)],
        "first": [torch.zeros(rows).double(), layer.first.flatten()[:-1].clone()],
    }
    if kind == "lstm":
        changes["cell"] = [torch.zeros(2, 7), torch.zeros(2, 8).half()]
    for name, values in changes.items():
        for value in values:
            before = getattr(layer, name)
            setattr(layer, name, value)
            with pytest.raises(KernelError):
                run_kernel(f"et::quantized_{kind}.out", layer.arguments(False))
            setattr(layer, name, before)
    arguments = layer.arguments(False)
    for place, value in ((1, 0.0), (1, float("nan")), (2, 500)):
        wrong = list(arguments)
        wrong[place] = value
        with pytest.raises(KernelError):
            run_kernel(f"et::quantized_{kind}.out", wrong)
    if kind == "lstm":  # neither the first state nor its products
        arguments[3] = arguments[12] = None
        with pytest.raises(KernelError):
            run_kernel("et::quantized_lstm.out", arguments)


#: Operator -> numbers of et::dynamic_linear behind the group size: per_token, symmetric, quant_min, quant_max, eps.
FORMS = {
    "dynamic": [(False, False, -128, 127, 1e-6), (True, False, -128, 127, 1e-6), (False, True, -127, 127, 1e-5)],
    "weight_only": [()],
}


#: Columns of a group, bits of a weight.
WEIGHTS = [(0, 8), (0, 4), (8, 8), (8, 4)]


KINDS = ["lstm", "gru"]


class FloatLayer:
    """Arguments of a call."""

    def __init__(
        self, form: str, kind: str, numbers: tuple, *, steps: int = 3, batch: int = 2, hidden: int = 16, group: int = 0,
        bits: int = 8, bias: bool = True, first: bool = False,
    ) -> None:  # fmt: skip
        self.form, self.kind, self.numbers, self.group = form, kind, numbers, group
        rows = (4 if kind == "lstm" else 3) * hidden
        self.input, self.state, self.cell = (
            torch.randn(*s, n) for s, n in [((steps, batch), rows), *[((batch,), hidden)] * 2]
        )
        columns = hidden if bits == 8 else (hidden + 1) // 2
        low, dtype = (-128, torch.int8) if bits == 8 else (0, torch.uint8)
        self.weight = torch.randint(low, low + 256, (rows, columns)).to(dtype)
        count = rows * (hidden // group if group else 1)
        self.scales = torch.rand(count) * 4e-3 * (1 if bits == 8 else 16) + 1e-4
        self.zeros = torch.randint(-4, 4, (count,), dtype=torch.int8)
        self.bias = torch.randn(rows) if bias else None
        self.first = torch.randn(rows) if first else None

    @property
    def name(self) -> str:
        """The operator's."""
        return f"et::{self.form}_{self.kind}.out"

    @property
    def product(self) -> list:
        """Arguments of a step's product, between its input and its output."""
        zeros = [] if self.form == "dynamic" else [self.zeros]
        return [self.weight, self.scales, *zeros, self.bias, self.group, *self.numbers]

    def arguments(self, reverse: bool = False) -> list:
        """Of the layer; outputs hold NaN."""
        is_lstm = self.kind == "lstm"
        states = torch.full((len(self.input), *self.state.shape), torch.nan)
        head = [self.input, self.state, *([self.cell] if is_lstm else [])]
        outs = [states, *([torch.full_like(self.cell, torch.nan)] if is_lstm else [])]
        return [*head, *self.product, self.first, reverse, *outs]

    def constant(self) -> set[int]:
        """Places of what is known at load."""
        start = 3 if self.kind == "lstm" else 2
        return set(range(start, start + len(self.product)))

    def in_steps(self, reverse: bool, fast: bool) -> list[torch.Tensor]:
        """The results by one kernel after the other."""
        state, cell, states = self.state, self.cell, {}
        order = range(len(self.input))
        for i, t in enumerate(reversed(order) if reverse else order):
            product, given = torch.empty_like(self.input[t]), self.input[t].clone()
            if i > 0 or self.first is None:
                arguments = [state, *self.product, product]
                of_library(f"et::{self.form}_linear.out", arguments, fast, set(range(1, len(arguments) - 1)))
            else:
                product = self.first.expand_as(product).clone()
            after = torch.empty_like(state)
            if self.kind == "lstm":
                c = torch.empty_like(cell)
                of_library("et::lstm_gates.out", [product + given, cell, after, c], fast, set())
                cell = c
            else:
                of_library("et::gru_gates.out", [given, product, state, after], fast, set())
            states[t] = state = after
        return [torch.stack([states[t] for t in order]), *([cell] if self.kind == "lstm" else [])]


def of_library(name: str, arguments: list, fast: bool, constant: set[int]) -> None:
    """The plain kernel, which is the last, or the vector kernel: the first where it offers a cost, else before it."""
    fast_place = 0 if name == "et::dynamic_linear.out" else kernel_count(name) - 2
    prepare_and_run(name, fast_place if fast else kernel_count(name) - 1, arguments, "", constant)


def results(layer: FloatLayer, arguments: list) -> list[torch.Tensor]:
    return arguments[-2:] if layer.kind == "lstm" else arguments[-1:]


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_float_states_are_equal_to_their_steps(form: str, kind: str, fast: bool) -> None:
    torch.manual_seed(0)
    assert kernel_count(f"et::{form}_{kind}.out") == 2
    for numbers, (group, bits), batch, hidden, rest in itertools.product(
        FORMS[form], WEIGHTS, (1, 5), (8, 24, 33), range(4)
    ):
        if group and hidden % group:
            continue
        bias, first, reverse = rest != 3, rest == 1, rest == 2
        layer = FloatLayer(
            form, kind, numbers, batch=batch, hidden=hidden, group=group, bits=bits, bias=bias, first=first
        )
        arguments = layer.arguments(reverse)
        of_library(layer.name, arguments, fast, layer.constant())
        for ours, exact in zip(results(layer, arguments), layer.in_steps(reverse, fast), strict=True):
            assert torch.equal(ours, exact), (numbers, group, bits, batch, hidden, rest, (ours - exact).abs().max())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_float_states_of_no_steps_and_no_sequences(form: str, kind: str) -> None:
    for place, (steps, batch) in itertools.product(range(2), ((0, 2), (2, 0))):
        layer = FloatLayer(form, kind, FORMS[form][0], steps=steps, batch=batch)
        arguments = layer.arguments()
        prepare_and_run(layer.name, place, arguments, "", layer.constant())
        if kind == "lstm":
            assert torch.equal(arguments[-1], layer.cell)
    layer.input = torch.empty(1 << 40, 0, layer.input.shape[2])
    run_kernel(layer.name, layer.arguments(True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_float_states_refuse_what_does_not_fit(form: str, kind: str) -> None:
    layer = FloatLayer(form, kind, FORMS[form][0], hidden=8, first=True)
    rows = layer.input.shape[2]
    changes = {
        "input": [torch.zeros(3, 2, rows - 1), torch.zeros(3, 2, 2 * rows), torch.zeros(2, rows), layer.input.double()],
        "state": [torch.zeros(2, 7), torch.zeros(3, 8), torch.zeros(2, 8).double(), torch.zeros(2, 2, 8)],
        "weight": [layer.weight[:, :7].clone(), layer.weight[1:].clone(), layer.weight.float(), layer.weight.flatten()],
        "scales": [torch.ones(rows - 1), torch.ones(rows).double()],
        "bias": [torch.zeros(rows).double(), torch.zeros(rows - 1)],
        "first": [torch.zeros(rows).double(), torch.zeros(rows - 1)],
        "group": [3, -1],
    }
    if kind == "lstm":
        changes["cell"] = [torch.zeros(2, 7), torch.zeros(2, 8).half()]
    for (name, values), place in itertools.product(changes.items(), range(2)):
        for value in values:
            before = getattr(layer, name)
            setattr(layer, name, value)
            with pytest.raises(KernelError):
                prepare_and_run(layer.name, place, layer.arguments(), "", layer.constant())
            setattr(layer, name, before)
    if kind == "lstm":  # neither the first state nor its products
        layer.first = layer.state = None
        arguments = [
            layer.input,
            None,
            layer.cell,
            *layer.product,
            None,
            False,
            layer.input[:, :, :8].clone(),
            layer.cell.clone(),
        ]
        with pytest.raises(KernelError, match="neither"):
            run_kernel(layer.name, arguments)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_without_integers_is_an_error(kind: str) -> None:
    layer = FloatLayer("dynamic", kind, FORMS["dynamic"][0])
    layer.state[1, 3] = torch.inf
    for place in range(2):
        with pytest.raises(KernelError, match="not finite"):
            prepare_and_run(layer.name, place, layer.arguments(), "", layer.constant())
    layer = FloatLayer("dynamic", kind, (False, False, 3, 127, 1e-6))
    for place in range(2):
        with pytest.raises(KernelError, match="range"):
            prepare_and_run(layer.name, place, layer.arguments(), "", layer.constant())
