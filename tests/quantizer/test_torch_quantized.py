"""Models that torch quantized itself: an ordinary module has the same integers, exports, and compiles both ways."""

import copy

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.ao import quantization as tq
from torch.ao.nn import intrinsic
from torch.ao.quantization import quantize_fx
from torch.nn import functional

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidArgumentError, InvalidTypeError, NotSupportedError

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*torch.ao.quantization is deprecated.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:torch.*"),
]
ENGINES = [
    engine for engine in ("fbgemm", "qnnpack", "x86", "onednn") if engine in torch.backends.quantized.supported_engines
]


@pytest.fixture(autouse=True)
def engine():
    before = torch.backends.quantized.engine
    torch.manual_seed(0)
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = before


class Eager(nn.Module):
    """A model between stubs, as eager mode wants it."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.quant, self.inner, self.dequant = tq.QuantStub(), inner, tq.DeQuantStub()

    def forward(self, x):
        return self.dequant(self.inner(self.quant(x)))


class Functional(nn.Module):
    """All of FloatFunctional's functions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 1)
        for name in ("add", "add_relu", "mul", "cat", "matmul"):
            setattr(self, name, nn.quantized.FloatFunctional())
        self.scalar = nn.quantized.FloatFunctional()

    def forward(self, x):
        a, b = self.first(x), self.second(x)
        c = self.add_relu.add_relu(self.add.add(a, b), self.mul.mul(a, b))
        c = self.scalar.mul_scalar(self.scalar.add_scalar(c, 0.5), -0.7)
        return self.matmul.matmul(self.cat.cat([a, c], 1), self.cat.cat([c, b], 1))


def eager(
    inner: nn.Module, shape: tuple[int, ...], engine: str = "fbgemm", fuse=None
) -> tuple[nn.Module, torch.Tensor]:
    torch.backends.quantized.engine = engine
    model = Eager(inner).eval()
    if fuse:
        model = tq.fuse_modules(model, fuse)
    # Without VNNI oneDNN's sums of two products saturate at 16 bits: torch asks for activations of 7 bits there.
    saturates = engine == "onednn" and not torch.cpu._is_vnni_supported()
    model.qconfig = tq.get_default_qconfig("x86" if saturates else engine)
    for module in model.modules():
        if isinstance(module, nn.PReLU):
            module.qconfig = tq.QConfig(activation=tq.default_observer, weight=tq.MinMaxObserver)
        if isinstance(module, (nn.ConvTranspose1d, nn.ConvTranspose2d)):
            module.qconfig = tq.default_qconfig  # torch has no scales by channel for these
        if isinstance(module, nn.Embedding):
            module.qconfig = tq.float_qparams_weight_only_qconfig
    prepared = tq.prepare(model)
    for _ in range(8):
        prepared(torch.randn(shape))
    return tq.convert(prepared), torch.randn(shape)


def step_of(model: nn.Module) -> float:
    """The largest scale of a result, near the end: what one step of the output is."""
    steps = [float(m.scale) for m in model.modules() if hasattr(m, "scale") and not isinstance(m.scale, nn.Module)]
    return steps[-1]


def compiled(module: nn.Module, inputs: tuple, delegated: bool):
    exported = torch.export.export(module, inputs)
    partitioner = [XnnpackPartitioner(largest=True)] if delegated else None
    return et.load(et.to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch().buffer)


def outputs(result) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def require_within_a_step(got, want, step: float) -> None:
    for one, other in zip(outputs(got), outputs(want), strict=True):
        other = other.dequantize() if other.is_quantized else other
        assert one.dtype == other.dtype and one.shape == other.shape
        close = ((one - other).abs() <= 1.01 * step).float().mean()
        assert close >= 0.999, f"{100 * (1 - float(close)):.2f} % are further than a step"


def check(model: nn.Module, *inputs: torch.Tensor, step: float | None = None) -> nn.Module:
    """The ordinary module and its programs against torch's own."""
    module = quantizer.from_torch_quantized(model)
    step = step_of(model) if step is None else step
    with torch.no_grad():
        want = model(*inputs)
        require_within_a_step(module(*inputs), want, step)
        for delegated in (False, True):
            require_within_a_step(compiled(module, inputs, delegated)(*inputs), want, step)
    return module


def tolerance(want: torch.Tensor) -> float:
    """What takes the place of a step where results are floats: the 7 bits that torch quantizes inputs with are a
    127th.
    """
    return float(outputs(want)[0].detach().abs().max()) / 127


LAYERS = {
    "linear": (lambda: nn.Linear(8, 6), (4, 8)),
    "linear of images": (lambda: nn.Linear(8, 6, bias=False), (2, 3, 4, 8)),
    "linear relu": (lambda: nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 5)), (4, 8)),
    "conv1d": (lambda: nn.Conv1d(3, 4, 3, stride=2, padding=1), (2, 3, 12)),
    "conv2d": (lambda: nn.Conv2d(4, 8, 3, padding=1, groups=2, dilation=2), (2, 4, 9, 9)),
    "conv2d reflected": (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"), (2, 3, 8, 8)),
    "conv3d": (lambda: nn.Conv3d(2, 3, 3, padding=1), (1, 2, 5, 6, 6)),
    "transposed 1d": (lambda: nn.ConvTranspose1d(3, 4, 3, stride=2, output_padding=1), (2, 3, 8)),
    "transposed 2d": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1), (2, 3, 6, 6)),
    "batch norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)), (2, 3, 6, 6)),
    "layer norm": (lambda: nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), (4, 8)),
    "group norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.GroupNorm(2, 4)), (2, 3, 6, 6)),
    "instance norm": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.InstanceNorm2d(4)), (2, 3, 6, 6)),
    "hardswish": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Hardswish()), (4, 8)),
    "elu": (lambda: nn.Sequential(nn.Linear(8, 8), nn.ELU(1.3)), (4, 8)),
    "leaky relu": (lambda: nn.Sequential(nn.Linear(8, 8), nn.LeakyReLU(0.2)), (4, 8)),
    "prelu": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.PReLU(4)), (2, 3, 6, 6)),
    "relu6 in place": (lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU6(inplace=True)), (4, 8)),
    "sigmoid": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Sigmoid()), (4, 8)),
    "pools": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 1), nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        ),
        (2, 3, 12, 12),
    ),
    "upsample": (lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.Upsample(scale_factor=2)), (2, 3, 6, 6)),
    "dropout": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 4)), (4, 8)),
    "functional": (Functional, (2, 3, 8, 8)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_eager_layers(name: str):
    make, shape = LAYERS[name]
    model, x = eager(make(), shape)
    check(model, x)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("fuse", [["inner.0", "inner.1", "inner.2"], ["inner.0", "inner.1"]])
def test_fused_layers_of_every_engine(engine: str, fuse: list[str]):
    inner = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1))
    model, x = eager(inner, (2, 3, 9, 9), engine, [fuse])
    check(model, x)


def test_convolution_and_sum_as_one():
    model = intrinsic.quantized.ConvAddReLU2d(3, 4, 1)
    module = quantizer.from_torch_quantized(model)
    x, y = (torch.quantize_per_tensor(torch.randn(2, n, 5, 5), 0.05, 100, torch.quint8) for n in (3, 4))
    from executorch_py.quantizer.torch_models.torch_values import quantize

    got = module(*(quantize(v.dequantize(), 0.05, 100, torch.quint8) for v in (x, y)))
    torch.backends.quantized.engine = "onednn"
    want = torch.ops.quantized.conv2d_add_relu(x, y, _repacked(model), float(model.scale), int(model.zero_point))
    require_within_a_step(got, want, float(model.scale))


def _repacked(model: nn.Module):
    weight, bias = model._weight_bias()
    return torch.ops.quantized.conv2d_prepack(weight, bias, [1, 1], [0, 0], [1, 1], 1)


def test_signed_activations():
    model = Eager(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))).eval()
    model.qconfig = tq.QConfig(
        activation=tq.MinMaxObserver.with_args(dtype=torch.qint8), weight=tq.default_per_channel_weight_observer
    )
    torch.backends.quantized.engine = "qnnpack"
    prepared = tq.prepare(model)
    prepared(torch.randn(32, 8))
    converted = tq.convert(prepared)
    try:
        converted(torch.randn(4, 8))
    except (
        RuntimeError
    ):  # torch's kernels for linear layers take unsigned ones only; the numbers are defined all the same
        module = quantizer.from_torch_quantized(converted)
        x = torch.randn(4, 8)
        require_within_a_step(compiled(module, (x,), False)(x), module(x), step_of(converted))
    else:
        check(converted, torch.randn(4, 8))


class Sequence(nn.Module):
    """A recurrent layer, and what reads it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


DYNAMIC = {
    "linear": (lambda: nn.Sequential(nn.Linear(16, 12), nn.Tanh(), nn.Linear(12, 4, bias=False)), (3, 16)),
    "linear of sequences": (lambda: nn.Sequential(nn.Linear(16, 12)), (2, 3, 16)),
    "lstm": (lambda: Sequence(nn.LSTM(8, 6, 2, batch_first=True)), (3, 5, 8)),
    "lstm both ways": (lambda: Sequence(nn.LSTM(8, 6, bidirectional=True)), (5, 3, 8)),
    "gru": (lambda: Sequence(nn.GRU(8, 6, 2, bidirectional=True, batch_first=True)), (3, 5, 8)),
    "lstm cell": (lambda: Sequence(nn.LSTMCell(8, 6)), (3, 8)),
    "gru cell": (lambda: nn.Sequential(nn.GRUCell(8, 6)), (3, 8)),
    "rnn cell": (lambda: nn.Sequential(nn.RNNCell(8, 6, nonlinearity="relu")), (3, 8)),
}
KINDS = {nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell}


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
@pytest.mark.parametrize("name", DYNAMIC)
def test_dynamic_layers(name: str, dtype: torch.dtype):
    make, shape = DYNAMIC[name]
    model = tq.quantize_dynamic(make().eval(), KINDS, dtype=dtype)
    x = torch.randn(shape)
    check(model, x, step=tolerance(model(x)))


def test_dynamic_integers_are_those_of_torch():
    """Not only near: the eager results agree to the last bits of a float."""
    model = tq.quantize_dynamic(nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 4)).eval(), {nn.Linear})
    x = torch.randn(5, 16)
    torch.testing.assert_close(quantizer.from_torch_quantized(model)(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bits", [8, 4])
def test_tables(bits: int):
    class Tables(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.bag = nn.Embedding(20, 16), nn.EmbeddingBag(20, 16, mode="sum", include_last_offset=True)

        def forward(self, indices, flat, offsets):
            return self.words(indices), self.bag(flat, offsets)

    model = Tables().eval()
    model.words.qconfig = tq.float_qparams_weight_only_qconfig  # torch's own 4 bits give wrong sizes for single rows
    model.bag.qconfig = model.words.qconfig if bits == 8 else tq.float_qparams_weight_only_qconfig_4bit
    model = tq.convert(tq.prepare(model))
    inputs = (torch.tensor([[1, 4, 19], [0, 0, 7]]), torch.tensor([3, 4, 5, 6]), torch.tensor([0, 1, 4]))
    check(model, *inputs, step=1e-4 if bits == 8 else 2e-3)  # with 4 bits torch's scales have 16


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"batch_first": True}, {"bias": False}], ids=str)
def test_recurrent_layer_of_parts(options: dict, delegated: bool):
    """nn.quantizable.LSTM: linear layers, sums and products with scales of their own; the first state is a constant."""
    inner = Sequence(torch.ao.nn.quantizable.LSTM(4, 6, **options))
    model, x = eager(inner, (3, 2, 4))
    module = quantizer.from_torch_quantized(model)
    steps = options.get("num_layers", 1)  # a layer reads the differences of the one before
    require_within_a_step(module(x), model(x), step_of(model))
    require_within_a_step(compiled(module, (x,), delegated)(x), model(x), steps * step_of(model))


class Block(nn.Module):
    """What FX mode finds by itself: fused layers, a sum, a pool, joined channels."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.side = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(3, 8, 1)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        y = functional.relu(self.norm(self.conv(x)))
        y = torch.cat([y + self.side(x), y * 0.5], 1)
        return self.head(functional.hardswish(y).mean([2, 3]))


@pytest.mark.parametrize("convert", [quantize_fx.convert_fx, quantize_fx.convert_to_reference_fx])
@pytest.mark.parametrize("engine", ["fbgemm", "qnnpack"])
def test_fx_mode(convert, engine: str):
    torch.backends.quantized.engine = engine
    x = torch.randn(2, 3, 8, 8)
    prepared = quantize_fx.prepare_fx(Block().eval(), tq.get_default_qconfig_mapping(engine), (x,))
    for _ in range(8):
        prepared(torch.randn(2, 3, 8, 8))
    model = convert(prepared)
    want = model(x)
    check(model, x, step=float(want.abs().max()) / 50)


def test_fx_mode_dynamic():
    x = torch.randn(3, 16)
    mapping = tq.QConfigMapping().set_global(tq.default_dynamic_qconfig)
    model = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4)).eval()
    model = quantize_fx.convert_fx(quantize_fx.prepare_fx(model, mapping, (x,)))
    check(model, x, step=tolerance(model(x)))


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_torchvision(name: str):
    from torchvision.models import quantization

    from examples import models  # noqa: F401  defines the operator names that torchvision needs

    model = getattr(quantization, name)(weights=None, quantize=False).eval()
    model.fuse_model(is_qat=False)
    model.qconfig = tq.get_default_qconfig("fbgemm")
    prepared = tq.prepare(model)
    with torch.no_grad():
        for _ in range(2):
            prepared(torch.randn(2, 3, 64, 64))
    converted = tq.convert(prepared)
    last = converted.fc if name == "resnet18" else converted.classifier[1]
    check(converted, torch.randn(1, 3, 64, 64), step=float(last.scale))


# ----------------------------------------------------------------------------------------------------------- the module


def linear() -> nn.Module:
    return tq.quantize_dynamic(nn.Sequential(nn.Linear(16, 8)).eval(), {nn.Linear})


def test_the_model_stays_and_the_module_is_ordinary():
    model, x = eager(nn.Sequential(nn.Linear(8, 6), nn.ReLU()), (4, 8))
    before = model(x)
    module = quantizer.from_torch_quantized(model)
    assert torch.equal(before, model(x)) and [n for n, _ in module.named_children()] == ["quant", "inner", "dequant"]
    assert all(isinstance(value, torch.Tensor) and not value.is_quantized for value in module.state_dict().values())
    copied = copy.deepcopy(module)
    copied.load_state_dict(module.state_dict())
    assert torch.equal(copied(x), module(x))
    packed = model.inner[0].weight()
    assert torch.equal(module.state_dict()["inner.0._packed_params._packed_params.integers"], packed.int_repr())


def test_names_of_arguments_and_dynamic_sizes():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = nn.Linear(8, 4)

        def forward(self, rows, scale=1.0):
            return self.fc(rows) * scale

    module = quantizer.from_torch_quantized(tq.quantize_dynamic(Two().eval(), {nn.Linear}))
    batch = torch.export.Dim("batch", min=1, max=16)
    exported = torch.export.export(module, (), {"rows": torch.randn(3, 8)}, dynamic_shapes={"rows": {0: batch}})
    method = et.load(
        et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch().buffer
    )
    x = torch.randn(11, 8)
    require_within_a_step(method(rows=x), module(x), tolerance(module(x)))


def test_quantized_results_are_floats():
    model, x = eager(nn.Linear(8, 6), (4, 8))
    model.dequant = nn.Identity()
    assert model(x).is_quantized
    assert torch.equal(quantizer.from_torch_quantized(model)(x), model(x).dequantize())


def test_what_is_not_quantized_by_torch_is_refused():
    with pytest.raises(InvalidArgumentError, match=r"quantizer\.quantize"):
        quantizer.from_torch_quantized(nn.Linear(3, 3))
    with pytest.raises(InvalidTypeError):
        quantizer.from_torch_quantized("model")


def test_handed_over_directly_it_says_what_to_call():
    from executorch_py.testing import lower

    with pytest.raises(NotSupportedError, match="from_torch_quantized"):
        quantizer.quantize(linear(), (torch.randn(1, 16),), "dynamic_int8")
    for call in (et.to_edge, et.to_edge_transform_and_lower):
        with pytest.raises(InvalidArgumentError, match="from_torch_quantized"):
            call(linear())
    with pytest.raises(NotSupportedError, match="from_torch_quantized"):
        lower(linear(), (torch.randn(1, 16),))


def test_the_ordinary_module_is_quantized_already():
    module = quantizer.from_torch_quantized(linear())
    with pytest.raises(et.ExecutorchError, match="already"):
        quantizer.quantize(module, (torch.randn(1, 16),), "dynamic_int8")
