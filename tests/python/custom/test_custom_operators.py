"""Operators of users: every kind of argument, in place, with sizes that depend on data, and what is wrong with them."""

import json

import pytest

torch = pytest.importorskip("torch")

import executorch_py as et  # noqa: E402
from executorch_py.cli import main  # noqa: E402
from executorch_py.codegen.kernel_form import KernelForm  # noqa: E402
from executorch_py.codegen.kernel_library import rows_of  # noqa: E402
from executorch_py.codegen.ops_yaml import TableError, parse_schema, read_table  # noqa: E402

pytestmark = pytest.mark.usefixtures("custom_ops")


class Calls(torch.nn.Module):
    """A module that is one function."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def lower(model, inputs, dynamic_shapes=None, **options):
    exported = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes)
    edge = et.to_edge_transform_and_lower(exported)
    return edge.to_executorch(et.ExecutorchBackendConfig(**options))


def check(function, *inputs) -> et.Module:
    model = Calls(function)
    module = et.load(lower(model, inputs).buffer)
    torch.testing.assert_close(module(*inputs), model(*[i.clone() for i in inputs]))
    return module


def test_every_kind_of_argument():
    def all_given(x, y):
        return torch.ops.test_ops.everything(
            x, y, 3, 0.5, True, 2.5, "four", [1, x.shape[0]], [0.25, 4.0], [True, False, True], [x, y], [None, y],
            torch.int64, 7, 1.5, True, 3, "abc", [5, 6], [0.125],
        )  # fmt: skip

    def none_given(x):
        return torch.ops.test_ops.everything(x, None, -3, 2.0, False, 4, "", [], [], [], [], [None])

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    check(all_given, x, y)
    check(none_given, x)


def test_several_outputs_of_which_one_is_used():
    check(
        lambda x: torch.ops.test_ops.everything(x, None, 1, 1.0, True, 1, "t", [1], [1.0], [True], [x], [x])[1],
        torch.ones(2),
    )


def test_an_out_variant_that_pytorch_knows():
    module = check(lambda x: torch.ops.test_ops.halve(x) + 1, torch.randn(5))
    assert "test_ops::halve.into" in module.program.metadata("forward").operators()


def test_sizes_that_depend_on_data():
    module = check(lambda x: torch.ops.test_ops.positive(x) * 2, torch.randn(20))
    for values in ([1.0] * 20, [-1.0] * 20):
        x = torch.tensor(values)
        assert module(x).shape == (20 if values[0] > 0 else 0,)


def test_in_place_operators():
    def through_a_view(x, y):
        z = x * 2
        torch.ops.test_ops.add_(z, y, 0.5)
        row = z[1]
        torch.ops.test_ops.add_(row, y[0])
        return z, row

    def old_value_is_needed(x, y):
        z = x * 2
        before = z.clone()
        torch.ops.test_ops.add_(z, y)
        return before, z

    def exchanged(x, y):
        a, b = x * 2, y * 3
        torch.ops.test_ops.swap_(a, b)
        return a - b

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    for function in (through_a_view, old_value_is_needed, exchanged):
        check(function, x, y)


def test_an_input_that_is_changed():
    model = Calls(lambda x, y: torch.ops.test_ops.add_(x, y) or y + 1)
    x, y = torch.zeros(4), torch.arange(4.0)
    module = et.load(lower(model, (x.clone(), y)).buffer)
    module(x, y)
    assert torch.equal(x, y)


class Total(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        return torch.ops.test_ops.accumulate(self.total, x)


def test_a_buffer_is_changed_where_it_lies():
    program = lower(Total(), (torch.ones(3),))
    assert "copy" not in program.dump(), program.dump()
    module = et.load(program.buffer)
    assert [module(torch.ones(3))[0].item() for _ in range(3)] == [2, 4, 6]


def test_the_buffers_old_value_is_kept_where_it_is_read_later():
    class Late(Total):
        def forward(self, x):
            before = self.total * 1
            after = torch.ops.test_ops.accumulate(self.total, x)
            return before, after

    module = et.load(lower(Late(), (torch.ones(3),)).buffer)
    assert [tuple(v[0].item() for v in module(torch.ones(3))) for _ in range(2)] == [(0, 2), (1, 4)]


def test_in_place_within_control_flow():
    def function(x, y):
        def then(x, y):
            z = x * 2
            torch.ops.test_ops.add_(z, y)
            return z

        return torch.cond(x.sum() > 0, then, lambda x, y: x - y, (x, y))

    module = check(function, torch.ones(3), torch.ones(3))
    assert torch.equal(module(-torch.ones(3), torch.ones(3)), -2 * torch.ones(3))


def test_dynamic_shapes():
    model = Calls(lambda x: torch.ops.test_ops.scale(x, 3.0))
    rows = torch.export.Dim("rows", min=1, max=64)
    module = et.load(lower(model, (torch.ones(4, 2),), (({0: rows},),)).buffer)
    for size in (1, 64, 7):
        assert torch.equal(module(torch.ones(size, 2)), 3 * torch.ones(size, 2))


# ----------------------------------------------------------------------------------------------------- what is missing


def test_a_missing_kernel_is_an_error_of_lowering():
    model = Calls(lambda x: torch.ops.test_ops.nowhere(x, [1])[0])
    with pytest.raises(et.OperatorMissingError) as caught:
        lower(model, (torch.ones(2),))
    (diagnostic,) = caught.value.diagnostics
    assert (
        diagnostic.op == "test_ops::nowhere"
        and diagnostic.file.endswith("test_custom_operators.py")
        and diagnostic.line
    )
    declaration = (
        "Error nowhere_out(KernelContext& context, const Tensor& x, IntArrayRef sizes, std::optional<bool> flag, "
        "Tensor& out0, Tensor& out1);"
    )
    assert declaration in str(caught.value) and "target_kernels" in str(caught.value)


@pytest.mark.parametrize("promise", [True, ["test_ops::nowhere.out"]])
def test_a_kernel_that_only_the_target_has(promise):
    model = Calls(lambda x: torch.ops.test_ops.nowhere(x, [1])[0])
    program = lower(model, (torch.ones(2),), target_kernels=promise)
    with pytest.raises(et.OperatorMissingError, match=r"test_ops::nowhere\.out"):
        et.Runtime.get().load_program(program.buffer).load_method("forward")


def test_a_promise_for_another_kernel_is_no_promise():
    model = Calls(lambda x: torch.ops.test_ops.nowhere(x, [1])[0])
    with pytest.raises(et.OperatorMissingError):
        lower(model, (torch.ones(2),), target_kernels=["test_ops::elsewhere.out"])


def test_a_promise_is_a_list():
    with pytest.raises(et.InvalidTypeError, match="must be a list"):
        et.ExecutorchBackendConfig(target_kernels="test_ops::nowhere.out")


def test_a_kernel_with_other_parameters_is_refused():
    model = Calls(lambda x: torch.ops.test_ops.wrong(x, 0.5))
    with pytest.raises(et.NotSupportedError, match=r"has other parameters \(Tio\).*double by"):
        lower(model, (torch.ones(2),))


# ------------------------------------------------------------------------------------------------------ which kernel


@pytest.mark.parametrize(
    ("dtype", "label"),
    [
        (torch.float32, "custom_ops[x=f32]"), (torch.int32, "custom_ops[x=i32|i64]"),
        (torch.int64, "custom_ops[x=i32|i64]"), (torch.float64, "custom_ops"),
    ],
)  # fmt: skip
def test_the_best_fitting_kernel_is_chosen_at_load(dtype, label, tmp_path, capsys):
    model = Calls(lambda x: torch.ops.test_ops.scale(x, 2.0))
    x = torch.arange(24).reshape(1, 2, 3, 4).to(dtype)
    program = lower(model, (x,))
    assert torch.equal(et.load(program.buffer)(x), 2 * x)
    program.save(tmp_path / "scale.pte")
    assert main(["ops", str(tmp_path / "scale.pte"), "--json"]) == 0
    (need,) = json.loads(capsys.readouterr().out)
    assert need["operator"] == "test_ops::scale.out" and need["kernels"] == {label: 1}


def test_a_kernel_for_channels_last(tmp_path, capsys):
    from tests.python.runtime.programs import compile_text

    text = (
        "method @forward(%x: f32[1, 2, 3, 4]<0, 2, 3, 1>) stage(lowered) {\n"
        "  %y = test_ops::scale.out(%x, 2.0) : f32[1, 2, 3, 4]<0, 2, 3, 1>\n  return %y\n}"
    )
    (tmp_path / "nhwc.pte").write_bytes(compile_text(text))
    assert main(["ops", str(tmp_path / "nhwc.pte")]) == 0
    assert "custom_ops[x=f32/channels_last out=f32/channels_last] 1" in capsys.readouterr().out


def test_the_order_of_kernels_is_that_of_the_table():
    from executorch_py.operators import kernels_of_operator

    labels = [kernel.variant for kernel in kernels_of_operator("test_ops::scale.out")]
    assert labels == ["x=f32/channels_last out=f32/channels_last", "x=f32", "x=i32|i64", ""]


# ------------------------------------------------------------------------------------------------------ the generator


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("my::f(Tensor x) -> int", "returns a int"), ("my::f(Tensor x) -> ()", "neither returns nor changes"),
        ("my::f_(Tensor(a!)[] x) -> ()", "changes tensors only"),
        ("my::f_(Tensor(a!) x) -> Tensor(a!)", "returns an argument that it changes"),
    ],
)  # fmt: skip
def test_operators_that_no_kernel_can_be_written_for(schema, message):
    with pytest.raises(TableError, match=message):
        KernelForm.of(parse_schema(schema))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('- schema: "my::f(Tensor x) -> Tensor"\n  specialised: [f_fast x=f33]', "unknown dtype f33"),
        ('- schema: "my::f(Tensor x) -> Tensor"\n  specialised: [f_fast x=f32/sideways]', "unknown order sideways"),
        ('- schema: "my::f(Tensor x) -> Tensor"\n  specialised: [f_fast]', "asks for nothing"),
        ('- schema: "my::f(Tensor x) -> Tensor"\n- schema: "other::f(Tensor x) -> Tensor"', "same kernel function"),
        ('- schema: "my::f(Tensor x) -> Tensor"\n  specialised: [f_out x=f32]', "same kernel function"),
        ('- schema: "my::f_(Tensor(a!) x) -> ()"\n  specialised: [f_fast x=f32]', "works in place"),
        (
            '- schema: "my::f(Tensor x) -> Tensor"\n  out: "my::f.out(Tensor y, *, Tensor(a!) out) -> Tensor(a!)"',
            "must take",
        ),
        ("- dtypes: f32", "line 1: the entry has no schema"),
        ("- schema: [a, b]", "must be one text"),
        (
            '- schema: "my::f(Tensr x) -> Tensor"',
            "line 1: my::f: argument 'x': unknown type 'Tensr'; there are Tensor, int",
        ),
        ('- schema: "my::f(Tensor x, int x) -> Tensor"', "two arguments are named 'x'"),
        ('- schema: "my::f(Tensor x, int n=) -> Tensor"', "'int n=' is no argument"),
        ('- schema: "my::f(Tensor x) -> Tensor"  # fast', "a comment has a line of its own"),
        ('- schema: "my::f(Tensor x, int n) -> Tensor"\n  in_place: [n]', "in_place names no tensor"),
        ('- schema: "my::f(Tensor x, int n) -> Tensor"\n  specialised: [f_fast n=f32]', "no tensor of the kernel"),
        ('- schema: "my::f(Tensor x) -> Tensor"\n  specialised: [f_fast x=f32 x=f64]', "names x twice"),
        ('- schema: "my::f(Tensor x) -> Tensor"\n  specialised: [f_a x=f32, f_b x=f32]', "f_b asks for what f_a does"),
        ('- schema: "my::f(Tensor x) -> Tensor"\n  specialised: [1f x=f32]', "is not 'function"),
        ('- schema: "my::ok(Tensor x) -> Tensor"\n- schema: "my::f(Tensor x) -> int"', "line 2: my::f returns a int"),
    ],
)
def test_a_bad_table_is_refused(table, message, tmp_path):
    (tmp_path / "ops.yaml").write_text(table)
    with pytest.raises(TableError, match=message):
        rows_of(read_table(tmp_path / "ops.yaml"))


def test_a_table_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "ops.yaml").write_bytes(b"# \xe9\n")
    with pytest.raises(TableError, match=r"ops\.yaml: is no text in UTF-8"):
        read_table(tmp_path / "ops.yaml")


def test_names_of_arguments_that_cpp_has_already():
    form = KernelForm.of(parse_schema("my::attend(Tensor context, int default, Tensor out) -> Tensor"))
    assert form.declaration == (
        "Error attend_out(KernelContext& context, const Tensor& context_, int64_t default_, const Tensor& out, Tensor& "
        "out_);"
    )


def test_functional_forms_of_pytorchs_own_functionalisation():
    """The slow path: batch_norm in training mode is where our analysis gives up."""

    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x):
            y = self.norm(x).reshape(-1)
            torch.ops.test_ops.add_(y, y)
            first = y[1:3]
            torch.ops.test_ops.add_(first, first)
            return y

    model = Both().train()
    x = torch.randn(3, 4)
    module = et.load(lower(model, (x,)).buffer)
    torch.testing.assert_close(module(x), Both().train()(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_plug_in_that_is_cut_off(part, custom_ops, tmp_path):
    whole = custom_ops.read_bytes()
    (tmp_path / "libcut.so").write_bytes(whole[: int(len(whole) * part)])
    with pytest.raises(et.ExecutorchError, match=r"libcut\.so"):
        et.load_kernel_library(tmp_path / "libcut.so")
