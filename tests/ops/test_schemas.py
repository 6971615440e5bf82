"""The operator table agrees with PyTorch, with a full YAML parser and with the rules of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
from executorch_py.codegen import ops_yaml  # noqa: E402

from .kernel_runner import KernelError, run_kernel  # noqa: E402

TABLE = ROOT / "src/cpp/ops/ops.yaml"
OPS = ops_yaml.read_table(TABLE)
SCHEMAS = [s for op in OPS for s in (op.schema, op.out) if s and s.name.startswith("aten::")]


def torch_overload(name: str):
    """The OpOverload called `name` ("aten::add.Tensor")."""
    namespace, rest = name.split("::")
    base, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: s.name)
def test_schema_equals_torchs(schema: ops_yaml.Schema) -> None:
    theirs = torch_overload(schema.name)._schema
    assert schema.text == str(theirs)
    assert [a.name for a in schema.arguments] == [a.name for a in theirs.arguments]
    assert [a.kwarg_only for a in schema.arguments] == [a.kwarg_only for a in theirs.arguments]
    assert [a.is_out for a in schema.arguments] == [a.is_out for a in theirs.arguments]
    assert [a.default is not None for a in schema.arguments] == [a.has_default_value() for a in theirs.arguments]
    assert len(schema.returns) == len(theirs.returns)


def test_every_core_aten_operator_is_listed() -> None:
    names = {op.schema.name for op in OPS} | {op.out.name for op in OPS if op.out}
    missing = []
    for packet in dir(torch.ops.aten):
        overloads = getattr(getattr(torch.ops.aten, packet), "overloads", list)()
        for overload in overloads:
            op = getattr(getattr(torch.ops.aten, packet), overload)
            name = f"aten::{packet}" + ("" if overload == "default" else f".{overload}")
            if torch.Tag.core in op.tags and name not in names:
                missing.append(name)
    assert not missing


def test_core_tag_is_torchs() -> None:
    for op in OPS:
        if op.schema.name.startswith("aten::"):
            assert ("core" in op.tags) == (torch.Tag.core in torch_overload(op.schema.name).tags), op.schema.name


def test_kernels_work_in_place_where_the_compiler_lets_them() -> None:
    core = pytest.importorskip("executorch_py._core")
    letters: dict[str, set[str]] = {}
    for name, _library, _variant, _priority, signature, _ in core.kernel_table():
        letters.setdefault(name, set()).add(signature)
    checked = 0
    for op in OPS:
        for signature in letters.get(op.kernel_schema.name, set()) - {""}:
            for letter, argument in zip(signature, op.kernel_schema.arguments):
                if argument.name in op.in_place:
                    assert letter in "eE", f"{op.kernel_schema.name}: {signature}: {argument.name}"
                    checked += 1
    assert checked > 200


@pytest.mark.parametrize("name", ["aten::remainder.Tensor_out", "aten::fmod.Tensor_out", "aten::div.out_mode"])
def test_a_divisor_is_not_overwritten(name: str) -> None:
    # the result's first zeros would become the divisors of the next row, which have been looked at already
    dividends, memory = torch.full((2, 3), 4), torch.full((6,), 2)
    arguments = [dividends, memory[:3], *(["floor"] if "div" in name else []), memory.view(2, 3)]
    with pytest.raises(KernelError, match="lies over argument 1"):
        run_kernel(name, arguments)
    assert memory.tolist() == [2] * 6


def test_a_full_yaml_parser_reads_the_same() -> None:
    yaml = pytest.importorskip("yaml")
    text = TABLE.read_text(encoding="utf-8")
    ours = [{k: v for k, v in entry.items() if k != "line"} for entry in ops_yaml.read_yaml(text)]
    assert ours == yaml.safe_load(text)


def test_out_arguments_are_the_functional_ones() -> None:
    """The emitter matches arguments by name: what an out variant has beyond the functional form has a default."""
    for op in OPS:
        if not op.out:
            continue
        functional = {a.name for a in op.schema.arguments}
        for a in op.out.arguments:
            assert a.name in functional or a.is_out or a.default is not None, (op.schema.name, a.name)
        assert len(op.schema.returns) == sum(a.is_out for a in op.out.arguments), op.schema.name


def test_every_integer_operator_is_the_form_of_another() -> None:
    forms = {ops_yaml.integer_form(op, {one.schema.name: one for one in OPS}) for op in OPS} - {""}
    takes_and_gives_integers = {
        op.schema.name for op in OPS if {"output_scale", "output_min"} <= {a.name for a in op.schema.arguments}
    }
    assert forms == takes_and_gives_integers


def test_published_kernels_are_listed() -> None:
    published = set((TABLE.parent / "published_ops.txt").read_text(encoding="utf-8").split())
    kernels = {op.kernel_schema.name for op in OPS}
    assert not {p for p in published if not p.startswith("executorch_prim::")} - kernels


F = '- schema: "aten::f(Tensor a) -> Tensor"'
Q = '- schema: "et::q(Tensor a, float a_scale, Tensor b, float b_scale, float output_scale) -> Tensor"'
W = '- schema: "et::q(Tensor a, float a_scale, Tensor weight_scales) -> Tensor"'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('- schema: "aten::f(Tensor a) -> Tensor"\n  colour: red', "unknown key colour"),
        ('- schema: "aten::f(Tensor a) -> Tensor"\n  dtypes: [f33]', "unknown dtype f33"),
        ('- schema: "aten::f(Tensor a) -> Tensor"\n  tags: [nice]', "unknown tag nice"),
        ('- schema: "aten::f(Quaternion a) -> Tensor"', "line 1: aten::f: argument 'a': unknown type 'Quaternion'"),
        ('- schema: "aten::f(Tensor a)"', "not an operator schema"),
        ('- schema: "aten::f(Tensor a) -> Tensor"\n  schema: again', "'schema' twice"),
        ("  schema: x", "an entry begins with"),
        (f"{F}\n  integers: h", "line 1: aten::f becomes h, which is not in the table"),
        (f'{F}\n  integers: "et::q"\n{Q}', "et::q takes 'b', which aten::f does not have"),
        (f'{F}\n  integers: "aten::f"', "aten::f becomes aten::f, which has no form of its own"),
        (f'{F}\n  integers: "et::q"\n{W}', "et::q has weight_scales: aten::f must begin with input, weight and bias"),
    ],
)
def test_a_bad_table_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "ops.yaml"
    path.write_text(text)
    with pytest.raises(ops_yaml.TableError, match=message):
        ops_yaml.read_table(path)
