"""The example backend's own operator: brought in by a pass, run by its kernel, without delegation."""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import executorch_py as et  # noqa: E402
from executorch_py.devtools.requirements import requirements  # noqa: E402
from executorch_py.operators import kernels_of_operator  # noqa: E402

if not kernels_of_operator("example::conv2d_relu.out"):
    pytest.skip("this build has no example backend", allow_module_level=True)
from executorch_py.backends.example.passes import FuseConv2dRelu  # noqa: E402


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4, bias=False)

    def forward(self, x):
        x = torch.relu(self.first(x))
        y = self.second(x)
        return torch.relu(y) + x


class Twice(Blocks):
    """Must not fire: the convolution is read by something else, too."""

    def forward(self, x):
        y = self.first(x)
        return torch.relu(y) + y


class Line(nn.Module):
    """Must not fire: one dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3)

    def forward(self, x):
        return torch.relu(self.conv(x))


IMAGE = torch.randn(1, 3, 16, 12)


def rewritten(model, inputs, dynamic_shapes=None):
    return et.to_edge(torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes)).transform([FuseConv2dRelu()])


def fused(edge) -> int:
    return sum(str(node.target) == "example.conv2d_relu.default" for node in edge.exported_program().graph.nodes)


def test_the_pass_brings_it_in_and_the_kernel_runs_it():
    model = Blocks().eval()
    edge = rewritten(model, (IMAGE,))
    assert fused(edge) == 2
    et.verify_dialect(edge.exported_program(), "backend:ExampleBackend")
    with pytest.raises(et.VerificationError, match="belongs to the backend ExampleBackend"):
        et.verify_dialect(edge.exported_program(), "edge")
    program = edge.to_executorch()
    needs = {need.operator: need for need in requirements(program.buffer)}
    assert needs["example::conv2d_relu.out"].kernels == {"example": 2}
    assert not any(need.is_backend for need in needs.values()), "nothing is delegated"
    torch.testing.assert_close(et.load(program.buffer)(IMAGE), model(IMAGE), rtol=1e-4, atol=1e-4)


def test_sizes_may_change():
    model = Blocks().eval()
    height = torch.export.Dim("height", min=8, max=32)
    module = et.load(rewritten(model, (IMAGE,), ({2: height},)).to_executorch().buffer)
    for size in (8, 32, 17):
        x = torch.randn(1, 3, size, 12)
        torch.testing.assert_close(module(x), model(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("model", "inputs"), [(Twice(), (IMAGE,)), (Line(), (torch.randn(1, 3, 9),))])
def test_where_it_must_not_fire(model, inputs):
    assert fused(rewritten(model, inputs)) == 0


def test_float64_is_left_alone_and_refused_by_the_dialect():
    model, inputs = Blocks().double().eval(), (IMAGE.double(),)
    edge = rewritten(model, inputs)
    assert fused(edge) == 0
    program = edge.exported_program()
    node = next(n for n in program.graph.nodes if n.target == torch.ops.aten.relu.default)
    convolution = node.args[0]
    source, weight, bias, stride, padding, dilation, _, _, groups = convolution.args
    node.target = torch.ops.example.conv2d_relu.default
    node.args = (source, weight, bias, stride, padding, dilation, groups)
    with pytest.raises(et.VerificationError, match="the device convolves float32 only"):
        et.verify_dialect(program, "backend:ExampleBackend")


def test_the_kernel_refuses_what_does_not_fit():
    from tests.python.runtime.programs import compile_text

    text = (
        "method @forward(%x: f32[1, 3, 4, 4], %w: f32[2, 2, 3, 3]) stage(lowered) {\n"
        "  %y = example::conv2d_relu.out(%x, %w, none, [1, 1], [0, 0], [1, 1], 1) : f32[1, 2, 2, 2]\n  return %y\n}"
    )
    method = et.Runtime.get().load_program(compile_text(text)).load_method("forward")
    with pytest.raises(et.InvalidArgumentError, match=r"example::conv2d_relu: input \[n, c, h, w\] and weight"):
        method.execute([torch.ones(1, 3, 4, 4), torch.ones(2, 2, 3, 3)])
