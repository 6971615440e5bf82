"""What a quantized model becomes in TOSA computes what the kernels compute, and what stays outside has a reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch_py.backends.tosa import TOSAPartitioner
from torch import nn
from torch.nn import functional as F

import executorch_py as et
from executorch_py import quantizer
from executorch_py.codegen.flatbuffer import read_root
from executorch_py.codegen.pte_delegates import delegates_of
from executorch_py.errors import InvalidArgumentError, NotSupportedError
from tests.conformance.shared_networks import SharedNetwork
from tests.tosa.tools import assert_same_steps

Inputs = tuple[torch.Tensor, ...]


def _quantized(model: nn.Module, inputs: Inputs, config: Any = "static_int8") -> Any:
    torch.manual_seed(0)
    data = [tuple(torch.randn_like(x) for x in inputs) for _ in range(3)]
    return quantizer.quantize(model.eval(), inputs, config, data)


def _whole() -> quantizer.TOSAQuantizer:
    """The quantizer that leaves no floats between."""
    return quantizer.TOSAQuantizer().set_global(quantizer.get_symmetric_quantization_config(is_per_channel=True))


RESHAPE = 57


def operators_of(payload: bytes) -> list[int]:
    """The numbers of a graph's operators, in their order."""
    (region,) = read_root(payload, b"TOSA").tables(1)
    (block,) = region.tables(1)
    return [operator.scalar(0, "I") for operator in block.tables(1)]


def _run(program: Any, inputs: Inputs) -> Any:
    return et.Runtime.get().load_program(program.buffer).load_method("forward").execute(inputs)


def _left(edge: Any) -> list[str]:
    """Operators outside of TOSA."""
    nodes = edge.exported_program().graph.nodes
    names = [str(n.target) for n in nodes if n.op == "call_function" and "delegation_tag" not in n.meta]
    return [name for name in names if "getitem" not in name]


def _check(
    model: nn.Module,
    inputs: Inputs,
    config: Any = "static_int8",
    whole: bool = True,
    partitioner: TOSAPartitioner | None = None,
) -> None:
    """Same numbers as the kernels'; with ``whole``, nothing but conversions is left outside."""
    exported = _quantized(model, inputs, config)
    edge = et.to_edge_transform_and_lower(exported, partitioner=[partitioner or TOSAPartitioner()])
    if whole:
        assert not [name for name in _left(edge) if "quantize_per_tensor" not in name], et.delegation_report(edge)
    program = edge.to_executorch()
    assert b"TOSABackend" in program.buffer or not whole
    plain = et.to_edge_transform_and_lower(exported).to_executorch()
    for given in (inputs, tuple(torch.randn_like(x) * 2 for x in inputs)):
        for got, wanted in zip(_run(program, given), _run(plain, given), strict=True):
            assert_same_steps(got, wanted)


class _Net(nn.Module):
    """Layers given by name, and what is done with them."""

    def __init__(self, function: Any, **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(self, *inputs)


IMAGE = (torch.randn(1, 4, 9, 11),)
CASES: dict[str, tuple[nn.Module, Inputs]] = {
    "conv and relu": (nn.Sequential(nn.Conv2d(4, 6, 3, padding=1), nn.ReLU()), IMAGE),
    "conv, stride that leaves a remainder": (nn.Conv2d(4, 6, (2, 3), stride=3, padding=(0, 1)), IMAGE),
    "dilated conv": (nn.Conv2d(4, 6, 3, dilation=2, padding=2), IMAGE),
    "conv without bias": (nn.Conv2d(4, 6, 1, bias=False), IMAGE),
    "depthwise conv": (nn.Conv2d(4, 4, 3, groups=4, padding=1), IMAGE),
    "depthwise conv, two results a channel": (nn.Conv2d(4, 8, 3, groups=4), IMAGE),
    "conv in groups": (nn.Conv2d(4, 6, 3, groups=2), IMAGE),
    "1-D conv": (nn.Conv1d(4, 6, 3, stride=2), (torch.randn(2, 4, 10),)),
    "transposed conv": (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), IMAGE),
    "transposed conv in groups": (nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, groups=2), IMAGE),
    "transposed conv, depthwise": (nn.ConvTranspose2d(4, 4, 4, stride=2, padding=1, groups=4), IMAGE),
    "conv and relu6": (nn.Sequential(nn.Conv2d(4, 6, 3), nn.ReLU6()), IMAGE),
    "linear": (nn.Linear(7, 5), (torch.randn(3, 7),)),
    "linear of rank 4": (nn.Linear(7, 5), (torch.randn(2, 3, 2, 7),)),
    "linear and hardswish": (nn.Sequential(nn.Linear(7, 5), nn.Hardswish(), nn.Linear(5, 3)), (torch.randn(3, 7),)),
    "max pool": (nn.Sequential(nn.Conv2d(4, 6, 3), nn.MaxPool2d(3, 2, 1), nn.Conv2d(6, 2, 1)), IMAGE),
    "max pool, ceil mode": (nn.Sequential(nn.Conv2d(4, 6, 3), nn.MaxPool2d(2, 2, ceil_mode=True)), IMAGE),
    "average pool": (nn.Sequential(nn.Conv2d(4, 6, 3), nn.AvgPool2d(3, 2), nn.Conv2d(6, 2, 1)), IMAGE),
    "average pool of all": (nn.Sequential(nn.Conv2d(4, 6, 3), nn.AvgPool2d((7, 9)), nn.Flatten(1)), IMAGE),
    "padded average as large as its image": (
        nn.Sequential(nn.Conv2d(4, 6, (7, 9)), nn.AvgPool2d(3, 1, 1)),
        IMAGE,
    ),
    "result that goes on": (
        _Net(lambda m, x: (y := m.a(x), m.b(y)), a=nn.Conv2d(4, 4, 3), b=nn.Conv2d(4, 2, 3)),
        IMAGE,
    ),
    "largest of a channel": (nn.Sequential(nn.Conv2d(4, 6, 3), _Net(lambda m, x: x.amax((2, 3)))), IMAGE),
    "adaptive pool": (nn.Sequential(nn.Conv2d(4, 6, (2, 4)), nn.AdaptiveAvgPool2d((4, 2))), IMAGE),
    "flatten": (nn.Sequential(nn.Conv2d(4, 3, 3), nn.Flatten(1), nn.Linear(189, 4)), IMAGE),
    "residual sum": (_Net(lambda m, x: m.b(x + m.a(x)), a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(4, 2, 3)), IMAGE),
    "scaled by channel": (
        _Net(lambda m, x: m.a(x) * m.b(x.mean((2, 3), keepdim=True)), a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(4, 4, 1)),
        IMAGE,
    ),
    "concatenation of slices": (
        _Net(
            lambda m, x: m.b(torch.cat([m.a(x)[:, 1:3], m.a(x)[:, :1]], 1)), a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(3, 2, 1)
        ),
        IMAGE,
    ),
    "permutation to channels last": (
        _Net(lambda m, x: m.b(m.a(x).permute(0, 2, 3, 1)), a=nn.Conv2d(4, 5, 3), b=nn.Linear(5, 3)),
        IMAGE,
    ),
    "pixels from channels and back": (
        nn.Sequential(nn.Conv2d(4, 12, 3), nn.PixelShuffle(2), nn.Conv2d(3, 2, 1), nn.PixelUnshuffle(2)),
        IMAGE,
    ),
    "larger image": (nn.Sequential(nn.Conv2d(4, 6, 3), nn.Upsample(scale_factor=2), nn.Conv2d(6, 2, 3)), IMAGE),
    "padding": (_Net(lambda m, x: m.b(F.pad(m.a(x), (1, 2, 0, 1))), a=nn.Conv2d(4, 4, 1), b=nn.Conv2d(4, 2, 3)), IMAGE),
}


@pytest.mark.parametrize("name", CASES)
def test_same_numbers_as_the_kernels(name: str) -> None:
    model, inputs = CASES[name]
    _check(model, inputs)


class _Attention(nn.Module):
    """Attention with its heads spelled out."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, width = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, width))


class _Sdpa(_Attention):
    """The same as torch writes it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        n, t, width = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, width))


class _Recurrent(nn.Module):
    """Rows of a recurrent layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


def _norm(*dims: int, **options: bool) -> nn.LayerNorm:
    """A layer norm with weights of its own."""
    torch.manual_seed(1)
    norm = nn.LayerNorm(dims, **options)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    return norm


ROWS = (torch.randn(2, 5, 12),)
#: What only TOSAQuantizer makes integers of, and what it must keep.
WHOLE_CASES: dict[str, tuple[nn.Module, Inputs]] = {
    "softmax of rows": (nn.Sequential(nn.Linear(12, 7), nn.Softmax(-1)), ROWS),
    "softmax of columns": (nn.Sequential(nn.Linear(12, 7), nn.Softmax(1)), ROWS),
    "softmax of the input": (nn.Softmax(-1), ROWS),
    "softmax of one": (nn.Sequential(nn.Linear(12, 1), nn.Softmax(-1)), ROWS),
    "layer norm": (nn.Sequential(_norm(12), nn.Linear(12, 3)), ROWS),
    "layer norm without parameters": (nn.LayerNorm(12, elementwise_affine=False), ROWS),
    "layer norm of two dims": (_norm(5, 12, bias=False), ROWS),
    "attention": (_Attention(12, 3), ROWS),
    "attention as one operator": (_Sdpa(12, 3), ROWS),
    **{
        name: (_Net(lambda m, x, f=f: m.b(f(m.a(x))), a=nn.Linear(12, 7), b=nn.Linear(7, 3)), ROWS)
        for name, f in {
            "gelu": F.gelu, "gelu, tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu,
            "tanh": torch.tanh, "sigmoid": torch.sigmoid, "hardswish": F.hardswish, "exp": torch.exp,
            "scaled": lambda x: x * 0.3, "scaled and shifted": lambda x: x / 3 + 1,
            "difference": lambda x: x - x.mean(1, True),
            "gate": lambda x: x[..., :7] * torch.sigmoid(x.flip(-1)[..., :7]),
        }.items()
    },
    "average of a function": (
        _Net(lambda m, x: m.b(m.a(x).sigmoid().mean(1)), a=nn.Linear(12, 7), b=nn.Linear(7, 3)), ROWS,
    ),
    "lstm": (_Recurrent(nn.LSTM(12, 6, batch_first=True)), ROWS),
    "lstm of two layers, both directions": (_Recurrent(nn.LSTM(12, 4, 2, bidirectional=True)), ROWS),
    "lstm with a projection": (_Recurrent(nn.LSTM(12, 6, proj_size=4)), ROWS),
    "rnn": (_Recurrent(nn.RNN(12, 6, batch_first=True)), ROWS),
    "rnn, relu, two layers, both directions": (
        _Recurrent(nn.RNN(12, 4, 2, nonlinearity="relu", bidirectional=True)), ROWS,
    ),
    "1-D average": (nn.Sequential(nn.Conv1d(5, 6, 3), nn.AvgPool1d(3, 1, 1)), ROWS),
    "gru": (nn.Sequential(_Recurrent(nn.GRU(12, 6)), nn.Linear(6, 3)), ROWS),
}  # fmt: skip


def _of_image(function: Callable[..., torch.Tensor], **parts: nn.Module | torch.Tensor) -> tuple[nn.Module, Inputs]:
    """An operator between convolutions, whose result keeps its channels."""
    net = _Net(function, **{name: part for name, part in parts.items() if isinstance(part, nn.Module)})
    for name, part in parts.items():
        if isinstance(part, torch.Tensor):
            net.register_buffer(name, part)
    return nn.Sequential(nn.Conv2d(4, 6, 1), net), IMAGE


def _scores(hides: Callable[[torch.Tensor], torch.Tensor]) -> tuple[nn.Module, Inputs]:
    """Attention with scores that are hidden."""
    return _Net(lambda m, x: m.a(hides(m.a(x) @ x.transpose(1, 2)).softmax(-1) @ x), a=nn.Linear(12, 12)), ROWS


#: What the quantizer writes with other operators, and what integers have since.
WRITTEN_CASES: dict[str, tuple[nn.Module, Inputs]] = {
    **{f"sum over {d}": _of_image(lambda m, x, d=d: x.sum(d)) for d in ((1,), (3,), (0,), (2, 3), (1, 2))},
    "sum of all": _of_image(lambda m, x: x.sum()),
    "mean of all": _of_image(lambda m, x: x.mean()),
    "prelu": _of_image(lambda m, x: m.f(x), f=nn.PReLU()),
    "prelu by channel": _of_image(lambda m, x: m.f(x), f=nn.PReLU(6)),
    "group norm": _of_image(lambda m, x: m.f(x), f=nn.GroupNorm(2, 6)),
    "group norm without factors": _of_image(lambda m, x: m.f(x), f=nn.GroupNorm(3, 6, affine=False)),
    "instance norm": _of_image(lambda m, x: m.f(x), f=nn.InstanceNorm2d(6, affine=True)),
    "twice as large": _of_image(lambda m, x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "three times, from corner to corner": _of_image(
        lambda m, x: F.interpolate(x, scale_factor=3, mode="bilinear", align_corners=True)
    ),
    "another size": _of_image(lambda m, x: F.interpolate(x, size=(13, 7), mode="bilinear")),
    **{
        f"nearest {to}": _of_image(lambda m, x, to=to: F.interpolate(x, size=to))
        for to in ((12, 11), (6, 22), (15, 8), (1, 1))
    },
    "steps": _of_image(lambda m, x: x[:, :, ::2]),
    "steps behind the first, in both": _of_image(lambda m, x: x[:, 1::3, :, 2::4]),
    "log softmax": _of_image(lambda m, x: x.log_softmax(1)),
    "quotient": _of_image(lambda m, x: m.f(x) / (x.sigmoid() + 0.5), f=nn.Conv2d(6, 6, 1)),
    "quotient by a mean": _of_image(lambda m, x: x / (x.abs().mean((2, 3), keepdim=True) + 0.1)),
    "variance": _of_image(lambda m, x: x.var((2, 3), keepdim=True)),
    "deviation": _of_image(lambda m, x: x.std((1, 2))),
    "largest, without its place": _of_image(lambda m, x: x.max(1)[0]),
    "smallest, without its place": _of_image(lambda m, x: x.min(2, keepdim=True).values),
    "rms norm": (nn.Sequential(nn.Linear(12, 12), nn.RMSNorm(12), nn.Linear(12, 3)), ROWS),
    "group norm of a large image": (
        nn.Sequential(nn.Conv2d(2, 4, 1), nn.GroupNorm(2, 4)),
        (torch.randn(1, 2, 60, 50),),
    ),
    "divided by channel": _of_image(lambda m, x: x / m.by, by=torch.rand(6, 1, 1) + 1),
    "layer scale": _of_image(lambda m, x: x + m.by * m.f(x), by=torch.rand(6, 1, 1), f=nn.Conv2d(6, 6, 1)),
    "larger of two": _of_image(lambda m, x: torch.maximum(x, m.f(x)), f=nn.Conv2d(6, 6, 1)),
    "smaller of two": _of_image(lambda m, x: torch.minimum(x, m.f(x)), f=nn.Conv2d(6, 6, 1)),
    "reflected": _of_image(lambda m, x: F.pad(x, (1, 2, 0, 3), mode="reflect")),
    "replicated": _of_image(lambda m, x: F.pad(x, (1, 2, 0, 3), mode="replicate")),
    "rolled": _of_image(lambda m, x: x.roll((1, -2), (2, 3))),
    "shuffled channels": _of_image(lambda m, x: F.channel_shuffle(x, 3)),
    "einsum": (
        _Net(lambda m, x: m.b(torch.einsum("btc,bsc->bts", m.a(x), x)), a=nn.Linear(12, 12), b=nn.Linear(5, 3)),
        ROWS,
    ),
}


@pytest.mark.parametrize("accelerator", [None, "ethos-u55-128"])
@pytest.mark.parametrize("name", WRITTEN_CASES)
def test_forms_on_integers(name: str, accelerator: str | None) -> None:
    model, inputs = WRITTEN_CASES[name]
    _check(model, inputs, _whole(), partitioner=TOSAPartitioner(accelerator=accelerator))


_LATER = torch.ones(5, 5).tril() == 0


class _Hidden(nn.Module):
    """Attention with a mask of each kind that is known when the model is quantized."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.qkv = kind, nn.Linear(12, 36)
        self.register_buffer("mask", torch.zeros(5, 5).masked_fill(_LATER, -torch.inf))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        if self.kind == "causal":
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if self.kind in ("attention", "bools"):
            mask = self.mask if self.kind == "attention" else ~_LATER
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)
        scores = q @ k.transpose(1, 2) * 0.3
        return (scores + self.mask if self.kind == "sum" else scores.masked_fill(_LATER, -1e9)).softmax(-1) @ v


@pytest.mark.parametrize("kind", ["causal", "attention", "bools", "sum", "filling"])
def test_scores_that_a_known_mask_hides_are_integers(kind: str) -> None:
    """And what is hidden counts for nothing: the first row sees itself only, whatever stands behind it."""
    torch.manual_seed(0)
    model, rows = _Hidden(kind), (torch.randn(2, 5, 12),)
    _check(model, rows, _whole())
    program = et.to_edge_transform_and_lower(_quantized(model, rows, _whole())).to_executorch()
    (got,) = _run(program, rows)
    wanted = model(*rows).detach()
    assert float((got - wanted).pow(2).sum() / wanted.pow(2).sum()) < 3e-3, "25 dB"
    changed = rows[0].clone()
    changed[:, 1:] = -changed[:, 1:].flip(1)
    torch.testing.assert_close(_run(program, (changed,))[0][:, 0], got[:, 0], rtol=0, atol=0.02)


@pytest.mark.parametrize(
    "hides",
    [
        lambda x: torch.where(_LATER, -torch.inf, x) * 0.5,
        lambda x: x + torch.randn(5, 5).masked_fill(_LATER, -torch.inf),
        lambda x: x.masked_fill(x < 0, -1e9),
    ],
)
def test_scores_with_another_mask_stay_floats(hides: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """No scale fits what hides an element; the layers around are integers all the same."""
    _check(*_scores(hides), _whole(), whole=False)


@pytest.mark.parametrize("name", [*WHOLE_CASES, "residual sum", "scaled by channel", "concatenation of slices"])
def test_no_floats_between(name: str) -> None:
    model, inputs = WHOLE_CASES.get(name) or CASES[name]
    _check(model, inputs, _whole())


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_with_shared_values(seed: int) -> None:
    network = SharedNetwork(seed)
    _check(network, network.inputs, whole=False)


@pytest.mark.parametrize("seed", range(12))
def test_permutations_with_neighbours_and_ones(seed: int) -> None:
    """Up to five axes, some of one element, some that stay side by side: one axis each in the graph."""
    rng = torch.Generator().manual_seed(seed)
    sizes = [(1, 2, 3, 1, 4)[i] for i in torch.randperm(5, generator=rng)][: 2 + seed % 4]
    order = torch.randperm(len(sizes), generator=rng).tolist()
    count = math.prod(sizes)
    net = _Net(
        lambda m, x: m.b(m.a(x).reshape(sizes).permute(order).reshape(1, count)),
        a=nn.Linear(5, count),
        b=nn.Linear(count, 7),
    )
    _check(net, (torch.randn(1, 5),))


def _refusals(model: nn.Module, inputs: Inputs, **options: Any) -> str:
    partitioner = TOSAPartitioner(**options)
    exported = _quantized(model, inputs)
    edge = et.to_edge_transform_and_lower(exported, partitioner=[partitioner])
    program = edge.to_executorch()
    plain = et.to_edge_transform_and_lower(exported).to_executorch()
    for got, wanted in zip(_run(program, inputs), _run(plain, inputs), strict=True):
        assert torch.equal(got, wanted)
    return " | ".join(partitioner.refusals.values())


def test_operators_of_floats_are_left_with_a_reason() -> None:
    model = _Net(lambda m, x: m.b(torch.cumsum(m.a(x), 1)), a=nn.Linear(4, 4), b=nn.Linear(4, 4))
    assert "it computes on floats, which the profile INT has not" in _refusals(model, (torch.randn(2, 4),))


def test_moved_integers_end_before_floats() -> None:
    model = nn.Sequential(nn.Conv1d(4, 6, 3), nn.AvgPool1d(3, 1, 1))
    assert "integers end before it" in _refusals(model, (torch.randn(2, 4, 10),))


def test_a_dynamic_batch_is_left_with_what_to_do() -> None:
    inputs, batch = (torch.randn(2, 4),), torch.export.Dim("batch", min=1, max=8)
    exported = quantizer.quantize(nn.Linear(4, 3).eval(), inputs, "static_int8", [inputs], dynamic_shapes=({0: batch},))
    partitioner = TOSAPartitioner()
    program = et.to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    assert "export the model for one size, without dynamic_shapes" in " ".join(partitioner.refusals.values())
    given = (torch.randn(5, 4),)
    assert torch.equal(
        _run(program, given)[0], _run(et.to_edge_transform_and_lower(exported).to_executorch(), given)[0]
    )


def test_operators_that_have_a_form_on_floats_only() -> None:
    """Their reason is not about floats: the profile INT has none."""
    model = nn.Sequential(nn.Conv2d(4, 6, 3), _Net(lambda m, x: x.amax(1).prod(1)))
    assert "a tensor without floats" not in _refusals(model, IMAGE)


@pytest.mark.parametrize("accelerator", [None, "ethos-u55-128", "ethos-u85-256"])
def test_squeeze_and_excite_reshapes_nothing(accelerator: str | None) -> None:
    """An image that is averaged and scaled has two readers: a RESHAPE of it would be a copy on the NPU."""
    model = CASES["scaled by channel"][0]
    exported = _quantized(model, IMAGE)
    edge = et.to_edge_transform_and_lower(exported, partitioner=[TOSAPartitioner(accelerator=accelerator)])
    (part,) = delegates_of(bytes(edge.to_executorch().buffer))
    assert RESHAPE not in operators_of(part.payload)


def test_two_parts_have_a_dequantize_each() -> None:
    """A step whose functions stay outside is several parts; its state goes into two of them."""
    spec, inputs = "TOSA-1.0+INT+int16", (torch.randn(1, 2, 8),)
    config = quantizer.get_symmetric_a16w8_quantization_config()
    model = _Recurrent(nn.GRU(8, 12, batch_first=True))
    partitioner = TOSAPartitioner(spec, accelerator="ethos-u55-128")
    _check(model, inputs, quantizer.TOSAQuantizer(spec).set_global(config), whole=False, partitioner=partitioner)
    assert "ethos-u55 has tables of 8" in " ".join(partitioner.refusals.values())


def test_a_rank_above_six_is_left_with_a_reason() -> None:
    assert "a tensor of rank 7, TOSA has 6" in _refusals(nn.Linear(2, 3), (torch.randn(1, 1, 2, 1, 2, 1, 2),))


@pytest.mark.parametrize(
    ("layer", "limit"),
    [
        (nn.Conv2d(4, 4, 3, stride=4, groups=4), "a stride of 4, {} has 3"),
        (nn.AvgPool2d(2, stride=4), "a stride of 4, {} has 3"),
        (nn.Conv2d(4, 6, (65, 1), padding=(32, 0)), "a kernel of 65 x 1, {} has 64 rows"),
        (nn.ConvTranspose2d(4, 6, 3, stride=3), "a transposed convolution with a stride of 3, {} has 2"),
    ],
)
def test_limits_of_an_accelerator(layer: nn.Module, limit: str) -> None:
    """U85 has TOSA's level 8K; U55 and U65 have less."""
    model = nn.Sequential(nn.Conv2d(4, 4, 1), layer)
    for family, macs in (("ethos-u55", 128), ("ethos-u65", 256)):
        assert limit.format(family) in _refusals(model, IMAGE, accelerator=f"{family}-{macs}")
    for accelerator in ("ethos-u85-256", None):
        assert limit.partition("{}")[0] not in _refusals(model, IMAGE, accelerator=accelerator)


#: Strides above 3.
STRIDED_CASES: dict[str, tuple[nn.Module, Inputs]] = {
    str(layer): (nn.Sequential(nn.Conv2d(4, 4, 1), layer, nn.Conv2d(channels, 3, 1)), (torch.randn(2, 4, 13, 18),))
    for layer, channels in (
        (nn.Conv2d(4, 6, 4, stride=4), 6),
        (nn.Conv2d(4, 6, (5, 7), stride=(2, 4), padding=(2, 3), bias=False), 6),
        (nn.Conv2d(4, 6, 2, stride=(5, 1)), 6),
        (nn.MaxPool2d(4), 4),
        (nn.MaxPool2d((3, 2), stride=(6, 5), padding=(1, 1)), 4),
    )
}


@pytest.mark.parametrize("name", STRIDED_CASES)
@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u85-256"])
def test_strides_that_an_accelerator_has_not(name: str, accelerator: str) -> None:
    """U55 gets blocks of pixels as channels, or smaller steps of which some count: the same integers."""
    _check(*STRIDED_CASES[name], partitioner=TOSAPartitioner(accelerator=accelerator))


def test_channels_beyond_an_accelerator() -> None:
    model, inputs = nn.Linear(65537, 1), (torch.randn(1, 65537),)
    for accelerator in ("ethos-u55-128", "ethos-u85-256"):
        assert "over 65537 channels" in _refusals(model, inputs, accelerator=accelerator)
    assert "channels" not in _refusals(model, inputs)


@pytest.mark.parametrize("accelerator", [None, "ethos-u55-128", "ethos-u85-256"])
@pytest.mark.parametrize("batch", [1, 2])
def test_averages_of_whole_images(accelerator: str | None, batch: int) -> None:
    """By REDUCE_SUM or by a convolution, whichever takes fewer cycles there: the same integers."""
    for pool in (nn.AvgPool2d((9, 11)), nn.AdaptiveAvgPool2d(1), nn.AvgPool2d((9, 8))):
        model = nn.Sequential(nn.Conv2d(4, 6, 1), pool, nn.Flatten(), nn.Linear(6, 3))
        _check(model, (torch.randn(batch, 4, 9, 11),), partitioner=TOSAPartitioner(accelerator=accelerator))


def test_a_stride_without_a_second_window_is_none() -> None:
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.AvgPool2d((7, 9)), nn.Conv2d(6, 2, 1, stride=5))
    assert "stride" not in _refusals(model, IMAGE, accelerator="ethos-u55-128")


def test_specifications_that_are_not_known() -> None:
    with pytest.raises(InvalidArgumentError, match=r"must be TOSA-1\.0\+INT"):
        TOSAPartitioner("TOSA-0.80+MI")
    with pytest.raises(InvalidArgumentError, match="ethos-u55, ethos-u65, ethos-u85"):
        TOSAPartitioner(accelerator="ethos-n78")


def test_quantizers_of_this_backend() -> None:
    config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
    for made in (quantizer.TOSAQuantizer("TOSA-1.0+INT"), quantizer.EthosUQuantizer("ethos-u85-256")):
        exported = quantizer.quantize(CASES["residual sum"][0], IMAGE, made.set_global(config), [IMAGE])
        edge = et.to_edge_transform_and_lower(exported, partitioner=[TOSAPartitioner()])
        assert not [name for name in _left(edge) if "quantize_per_tensor" not in name]
    with pytest.raises(InvalidArgumentError, match="profile with integers"):
        quantizer.TOSAQuantizer("TOSA-1.0+FP")
    with pytest.raises(NotSupportedError, match="kind dynamic"):
        quantizer.TOSAQuantizer().set_global("dynamic_int8")


class _KeepsAttention(quantizer.TOSAQuantizer):
    """A table of patterns without two rows."""

    patterns = tuple(row for row in quantizer.TOSAQuantizer.patterns if row.name not in ("matmul", "softmax"))


def test_a_quantizer_of_ones_own() -> None:
    model, inputs = WHOLE_CASES["attention"]
    config = quantizer.get_symmetric_quantization_config(is_per_channel=True)
    exported = _quantized(model, inputs, _KeepsAttention().set_global(config))
    edge = et.to_edge_transform_and_lower(exported, partitioner=[TOSAPartitioner()])
    left = [name for name in _left(edge) if "quantize" not in name]
    assert "aten._softmax.default" in left and "aten.linear.default" not in left
    hidden = _quantized(_Hidden("sum"), inputs, _KeepsAttention().set_global(config))
    assert any(str(node.target) == "aten.add.Tensor" for node in hidden.graph.nodes), "as the model has it"
    assert not any(str(node.target) == "aten.amin.default" for node in hidden.graph.nodes)


def test_the_same_model_gives_the_same_bytes() -> None:
    exported = _quantized(CASES["residual sum"][0], IMAGE)
    files = [
        bytes(et.to_edge_transform_and_lower(exported, partitioner=[TOSAPartitioner()]).to_executorch().buffer)
        for _ in range(2)
    ]
    assert files[0] == files[1]
