"""verify_dialect: what passes, and for each dialect and rule a program that must not."""

import operator

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import executorch_py as et  # noqa: E402
from executorch_py.exir.backend.dialect import BackendDialect, register_backend_dialect  # noqa: E402

aten = torch.ops.aten
INPUTS = (torch.ones(2, 4),)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = self.linear(x).relu_()
        return F.softmax(y.view(-1, 2), dim=1)


def exported(model=None, inputs=INPUTS):
    return torch.export.export(model or Model(), inputs)


def core():
    return exported().run_decompositions()


def edge(model=None, inputs=INPUTS):
    return et.to_edge(exported(model, inputs)).exported_program()


def violations(program, dialect) -> list[et.Diagnostic]:
    with pytest.raises(et.VerificationError, match=f"dialect {dialect}") as caught:
        et.verify_dialect(program, dialect)
    return list(caught.value.diagnostics)


def the_violation(program, dialect, rule, op) -> et.Diagnostic:
    """The one violation; it names rule, operator and a line."""
    (found,) = violations(program, dialect)
    assert found.message.startswith(rule), found.message
    assert op in found.op, found.op
    assert found.node
    return found


def first(program, target) -> torch.fx.Node:
    return next(node for node in program.graph.nodes if node.target == target)


def rename(program, old, new, **changes):
    """The program with another operator in one node, as a wrong pass might leave it."""
    node = first(program, old)
    node.target = new
    for name, value in changes.items():
        setattr(node, name, value)
    return program


def test_what_each_step_gives_is_in_its_dialect():
    et.verify_dialect(exported(), "aten-autograd-safe")
    for dialect in ("aten-autograd-safe", "aten", "core-aten"):
        et.verify_dialect(core(), dialect)
    et.verify_dialect(exported().run_decompositions({}), "aten")
    for dialect in ("aten", "edge"):
        et.verify_dialect(edge(), dialect)


def test_control_flow_is_looked_into():
    def function(x):
        return torch.cond(x.sum() > 0, lambda x: F.gelu(x).view(-1), lambda x: (-x).view(-1), (x,))

    class Branches(nn.Module):
        def forward(self, x):
            return function(x)

    et.verify_dialect(edge(Branches()), "edge")
    found = violations(exported(Branches()), "edge")
    assert {d.op for d in found} >= {"aten.view.default"} and len(found) == 2
    assert all(d.file.endswith("test_dialects.py") and d.line for d in found)


# ------------------------------------------------------------------------------------------------------- must fail


def test_autograd_safe_refuses_what_gradients_cannot_pass():
    program = core()
    node = first(program, aten.relu.default)
    node.target, node.args = aten.igamma.default, (node.args[0], node.args[0])
    found = the_violation(program, "aten-autograd-safe", "gradients can pass", "igamma")
    assert "the derivative for 'igamma: input' is not implemented" in found.message and found.line


def test_autograd_safe_refuses_out_variants():
    program = core()
    node = first(program, aten.relu.default)
    node.target, node.args, node.kwargs = aten.add.out, (node.args[0], node.args[0]), {"out": node.args[0]}
    the_violation(program, "aten-autograd-safe", "gradients can pass", "add.out")


def test_aten_refuses_what_changes_its_arguments():
    found = the_violation(exported(), "aten", "functional", "relu_")
    assert found.file.endswith("test_dialects.py") and found.line and "functional form" in found.message


def test_aten_refuses_pytorchs_internal_operators():
    program = rename(core(), aten.relu.default, torch.ops.prims.exp.default)
    the_violation(program, "aten", "operators of ATen or of users", "prims.exp")


def test_aten_refuses_python_functions():
    def mine(x):
        return x

    the_violation(rename(core(), aten.relu.default, mine), "aten", "calls operators only", "mine")


def test_aten_refuses_other_kinds_of_nodes():
    program = rename(core(), aten.relu.default, "relu", op="call_method")
    (found,) = violations(program, "aten")
    assert "call_method" in found.message


def test_aten_refuses_nodes_without_a_type():
    program = core()
    del first(program, aten.relu.default).meta["val"]
    the_violation(program, "aten", "every value has a type", "relu")


def test_core_aten_refuses_other_operators():
    found = violations(exported().run_decompositions({}), "core-aten")
    assert [d.op for d in found] == ["aten.linear.default", "aten.softmax.int"]
    assert all(d.message.startswith("Core ATen") and d.line for d in found)


def test_edge_refuses_views():
    found = the_violation(rename(edge(), aten.view_copy.default, aten.view.default), "edge", "no views", "view")
    assert "view_copy" in found.message


def test_edge_refuses_operators_without_a_kernel():
    program = rename(edge(), aten.relu.default, aten.mkldnn_reorder_conv2d_weight.default)
    the_violation(program, "edge", "operators with a kernel", "mkldnn_reorder")


def test_edge_refuses_element_types_without_a_kernel():
    program = edge(nn.Softmax(dim=1))
    node = first(program, aten._softmax.default)
    source = node.args[0]
    with source.meta["val"].fake_mode:
        source.meta["val"] = torch.empty(2, 4, dtype=torch.int16)
    found = the_violation(program, "edge", "operators with a kernel", "_softmax")
    assert "int16" in found.message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.empty(2, 4, dtype=torch.uint8).view(torch.bits8), "dtype torch.bits8"),
        (torch.empty(4, 2).t(), "not row-major"),
        (torch.eye(4).to_sparse(), "layout torch.sparse_coo"),
    ],
)
def test_edge_refuses_values_that_no_file_holds(value, text):
    program = edge()
    first(program, aten.relu.default).meta["val"] = value
    found = violations(program, "edge")
    assert any("values that a file can hold" in d.message and text in d.message for d in found), found


def test_a_backend_refuses_operators_of_another_and_unregistered_ones():
    library = torch.library.Library("dialect_test", "FRAGMENT")
    for name in ("mine", "yours", "nobodys"):
        library.define(f"{name}(Tensor x) -> Tensor")

    def check(node):
        return "too large for this device" if node.target is operator.getitem else ""

    for name, owner in (("mine", "Mine"), ("yours", "Yours")):
        register_backend_dialect(
            BackendDialect(
                owner, "dialect_test", frozenset({f"dialect_test::{name}"}), check if owner == "Mine" else None
            )
        )
    ops = torch.ops.dialect_test
    et.verify_dialect(rename(edge(), aten.relu.default, ops.mine.default), "backend:Mine")
    the_violation(rename(edge(), aten.relu.default, ops.yours.default), "backend:Mine", "operators of Edge", "yours")
    the_violation(
        rename(edge(), aten.relu.default, ops.nobodys.default), "backend:Mine", "operators of Edge", "nobodys"
    )
    found = the_violation(
        rename(edge(), aten.relu.default, ops.mine.default), "edge", "operators of no backend", "mine"
    )
    assert "backend:Mine" in found.message
    with pytest.raises(et.RegistrationError, match="belongs to the backend Mine"):
        register_backend_dialect(BackendDialect("Third", "dialect_test", frozenset({"dialect_test::mine"})))
    with pytest.raises(et.RegistrationError, match="already"):
        register_backend_dialect(BackendDialect("Mine", "dialect_test", frozenset()))

    split = edge(Calls(lambda x: torch.topk(x, 2)[0]))
    (found,) = violations(split, "backend:Mine")
    assert "too large for this device" in found.message


class Calls(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def test_dialects_that_do_not_exist():
    for name in ("edg", "backend:Nobody"):
        with pytest.raises(et.InvalidArgumentError):
            et.verify_dialect(edge(), name)


def test_what_is_no_program_and_no_dialect():
    exported = torch.export.export(nn.ReLU(), (torch.ones(2),))
    with pytest.raises(et.InvalidTypeError, match="must be an ExportedProgram"):
        et.verify_dialect(exported.graph_module, "aten")
    with pytest.raises(et.InvalidTypeError, match="the dialect is None, must be a string"):
        et.verify_dialect(exported, None)
