"""ETRecords: what is recorded, files both ways, and files that are none."""

import copy
import io
import json
import zipfile

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py.devtools import (
    BundledProgram,
    Inspector,
    MethodTestCase,
    MethodTestSuite,
    generate_etrecord,
    parse_etrecord,
)
from executorch_py.errors import InvalidArgumentError, InvalidProgramError, InvalidStateError
from tests.devtools.models import two_blocks


def lowered(partitioner=None, **options):
    model, inputs = two_blocks()
    exported = torch.export.export(model, inputs)
    edge = et.to_edge_transform_and_lower(exported, partitioner=partitioner, **options)
    return exported, edge, edge.to_executorch()


def handles(program):
    return {node.name: node.meta.get("debug_handle") for node in program.graph.nodes}


@pytest.mark.parametrize("partitioner", [None, [XnnpackPartitioner(largest=True)]])
def test_round_trip(partitioner, tmp_path):
    program = lowered(partitioner, generate_etrecord=True)[2]
    record = program.get_etrecord()
    model, inputs = two_blocks()
    record.update_representative_inputs(list(inputs))
    record.update_reference_outputs([model(*inputs)])
    record.save(tmp_path / "model.etrecord")
    read = parse_etrecord(tmp_path / "model.etrecord")
    assert read.debug_handle_map == record.debug_handle_map == program.debug_handle_map
    assert read.delegate_map == record.delegate_map
    assert read.instructions == record.instructions
    assert torch.equal(read._representative_inputs[0], inputs[0])
    assert torch.equal(read._reference_outputs["forward"][0][0], model(*inputs))
    assert handles(read.edge_dialect_program) == handles(record.edge_dialect_program)
    assert any(handles(read.edge_dialect_program).values())
    for one in (read.exported_program, read.edge_dialect_program):
        assert torch.allclose(one.module()(*inputs), model(*inputs))
    assert "forward" in repr(read)


def test_exported_program_is_recorded_on_request():
    assert lowered()[2].get_etrecord().exported_program is None
    exported, _, program = lowered(generate_etrecord=True)
    assert program.get_etrecord().exported_program is exported


def test_bodies_and_several_results(tmp_path):
    """Handles of nodes inside branches, and of operators with several results, come back."""

    class Branches(torch.nn.Module):
        def forward(self, x):
            values, places = torch.max(x, 1)
            return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos() + 1, (values,)), places

    exported = torch.export.export(Branches(), (torch.randn(3, 4),))
    program = et.to_edge(exported).to_executorch()
    record = program.get_etrecord()
    stream = io.BytesIO()
    record.save(stream)
    path = tmp_path / "x.etrecord"
    path.write_bytes(stream.getvalue())
    from executorch_py.exir.backend.utils import nodes_with_bodies

    def found(one):
        nodes = nodes_with_bodies(one.edge_dialect_program.graph_module)
        return [(n.name, n.meta["debug_handle"]) for n in nodes if "debug_handle" in n.meta and n.op == "call_function"]

    assert sorted(found(parse_etrecord(path))) == sorted(found(record))
    assert len(found(record)) >= 4


@pytest.mark.parametrize("partitioner", [None, [XnnpackPartitioner(always=True)]])
def test_results_that_nothing_uses(partitioner, tmp_path):
    """The way of the published tutorial: a copy of the manager, one result of sort and of a norm that nobody reads."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)

        def forward(self, x):
            return self.norm(self.linear(x).sort(-1).values) + x.topk(1).indices

    edge = et.to_edge_transform_and_lower(torch.export.export(Model(), (torch.randn(2, 8),)), partitioner=partitioner)
    copied = copy.deepcopy(edge)
    generate_etrecord(tmp_path / "model.etrecord", copied, edge.to_executorch())
    read = parse_etrecord(tmp_path / "model.etrecord").edge_dialect_program
    wanted = {name: handle for name, handle in handles(copied.exported_program()).items() if handle is not None}
    assert wanted and wanted.items() <= handles(read).items()


def test_values_are_matched_as_before_the_file(tmp_path):
    """A batch norm has two results that nobody reads; torch.export.load gives them nodes. The norm is fused away."""
    pytest.importorskip("pandas")
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm2d(4)
    torch.nn.init.normal_(norm.running_mean)
    model = torch.nn.Sequential(torch.nn.Conv2d(2, 4, 3), norm, torch.nn.ReLU()).eval()
    inputs = (torch.rand(1, 2, 8, 8),)
    edge = et.to_edge_transform_and_lower(torch.export.export(model, inputs), generate_etrecord=True)
    program = edge.to_executorch()
    record = program.get_etrecord()
    record.update_representative_inputs(list(inputs))
    record.save(tmp_path / "model.etrecord")
    loaded = et.Runtime.get().load_program(program.buffer, enable_etdump=True, debug_buffer_size=1 << 16)
    loaded.load_method("forward").execute(inputs)
    for one in (record, parse_etrecord(tmp_path / "model.etrecord")):
        gaps = Inspector.of(loaded, one).calculate_numeric_gap("MSE")
        assert list(gaps["aot_ops"]) == [["relu"]] and max(gaps["gap"].iloc[0]) < 1e-12


def test_several_methods_and_further_programs(tmp_path):
    model, inputs = two_blocks()
    exported = {"forward": torch.export.export(model, inputs), "first": torch.export.export(model.first, inputs)}
    edge = et.to_edge(exported)
    program = edge.to_executorch()
    path = tmp_path / "several.etrecord"
    generate_etrecord(path, edge, program, exported, {"again": exported["first"], "edge": edge})
    read = parse_etrecord(path)
    assert set(read.edge_dialect_program) == set(read.debug_handle_map) == {"forward", "first"}
    assert set(read.graph_map) == {"again/forward", "edge/forward", "edge/first"}
    assert read.exported_program is not None
    with pytest.raises(InvalidArgumentError, match="delegate_map"):
        generate_etrecord(path, edge, program, extra_recorded_export_modules={"delegate_map": edge})


def test_bundled_program_brings_its_inputs(tmp_path):
    model, inputs = two_blocks()
    _, edge, program = lowered()
    bundle = BundledProgram(program, [MethodTestSuite("forward", [MethodTestCase(inputs, model(*inputs))])])
    generate_etrecord(tmp_path / "b.etrecord", edge, bundle)
    read = parse_etrecord(tmp_path / "b.etrecord")
    assert torch.equal(read._representative_inputs[0], inputs[0])


def test_states():
    _, edge, program = lowered(generate_etrecord=True)
    record = program.get_etrecord()
    for change in (
        lambda: record.add_edge_dialect_program(edge),
        lambda: record.add_executorch_program(program),
        lambda: record.add_exported_program(record.exported_program),
    ):
        with pytest.raises(InvalidStateError, match="already"):
            change()
    with pytest.raises(InvalidStateError, match="add_executorch_program"):
        et.ETRecord().save(io.BytesIO())


def changed(source, target, entry, data):
    """A copy of a zip in which an entry is another one, or is not there."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if name != entry:
                new.writestr(name, old.read(name))
        if data is not None:
            new.writestr(entry, data)


def test_files_that_are_none(tmp_path):
    good, bad = tmp_path / "good.etrecord", tmp_path / "bad.etrecord"
    lowered()[2].get_etrecord().save(good)
    remedy = r"get_etrecord\(\)\.save"
    bad.write_bytes(good.read_bytes()[:-100])
    with pytest.raises(InvalidProgramError, match=f"bad.etrecord is cut off or damaged.*{remedy}"):
        parse_etrecord(bad)
    changed(good, bad, "ETRECORD_V0", None)
    with pytest.raises(InvalidProgramError, match=f"a zip, and no ETRecord.*{remedy}"):
        parse_etrecord(bad)
    changed(bad, tmp_path / "v9.etrecord", "ETRECORD_V9", "")
    with pytest.raises(InvalidProgramError, match="of the version ETRECORD_V9; this version reads ETRECORD_V0"):
        parse_etrecord(tmp_path / "v9.etrecord")
    changed(good, bad, "debug_handle_map", None)
    with pytest.raises(InvalidProgramError, match="has no debug_handle_map"):
        parse_etrecord(bad)
    changed(good, bad, "delegate_map", "{")
    with pytest.raises(InvalidProgramError, match="is damaged"):
        parse_etrecord(bad)
    changed(good, bad, "debug_handle_map", json.dumps([1, 2]))
    with pytest.raises(InvalidProgramError, match="is damaged"):
        parse_etrecord(bad)
    with pytest.raises(FileNotFoundError):
        parse_etrecord(tmp_path / "nowhere.etrecord")
