"""Files for developer tools, both ways with the official package: ETDumps, ETRecords and bundled programs."""

import json

import pytest
import torch

import executorch_py as et
from executorch_py.devtools import BundledProgram, Inspector, MethodTestCase, MethodTestSuite, parse_etrecord
from executorch_py.devtools.bundled_program.serialize import (
    deserialize_from_flatbuffer_to_bundled_program,
    serialize_from_bundled_program_to_flatbuffer,
)
from tests.devtools.models import two_blocks
from tests.interop.devtools_peer import told

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def theirs(tmp_path_factory, peer_script):
    folder = tmp_path_factory.mktemp("theirs")
    peer_script("devtools_peer.py", "write", folder)
    return folder


def unlike(value):
    return value is None or value != value or value == ""


@pytest.mark.parametrize("name", ["plain", "delegated"])
def test_official_files_say_the_same_here(theirs, name):
    """Every event, its times, operators and values: as the official Inspector tells them."""
    pytest.importorskip("pandas")
    expected = json.loads((theirs / f"{name}.json").read_text())
    ours = told(theirs / name, Inspector)
    assert ours["columns"] == expected["columns"] and ours["lines"] == expected["lines"]
    assert len(ours["rows"]) == len(expected["rows"]) > 10
    for mine, other in zip(ours["rows"], expected["rows"], strict=True):
        assert mine.keys() == other.keys()
        for key, value in other.items():
            if isinstance(value, float) or key == "raw":
                assert mine[key] == pytest.approx(value), (key, mine)
            else:
                assert mine[key] == value or (unlike(mine[key]) and unlike(value)), (key, mine)
    # Their reference is the exported graph, ours the Edge graph: the gaps are those of rounding.
    assert all(gap < 1e-12 for told_gaps in (ours["gaps"], expected["gaps"]) for _, gaps in told_gaps for gap in gaps)
    assert [ops for ops, _ in ours["gaps"]] == [ops for ops, _ in expected["gaps"]]


@pytest.mark.parametrize("name", ["plain", "delegated"])
def test_official_records_and_bundles(theirs, name):
    model, inputs = two_blocks()
    record = parse_etrecord(theirs / f"{name}.etrecord")
    for program in (record.exported_program, record.edge_dialect_program):
        torch.testing.assert_close(program.module()(*inputs), model(*inputs))
    bundled = deserialize_from_flatbuffer_to_bundled_program((theirs / f"{name}.bpte").read_bytes())
    assert bundled.program == (theirs / f"{name}.pte").read_bytes()
    value = bundled.method_test_suites[0].test_cases[0].expected_outputs[0].val
    torch.testing.assert_close(
        torch.frombuffer(bytearray(value.data), dtype=torch.float32).reshape(value.sizes), model(*inputs)
    )


def test_the_official_package_reads_ours(tmp_path, peer_script):
    model, inputs = two_blocks()
    edge = et.to_edge_transform_and_lower(torch.export.export(model, inputs), generate_etrecord=True)
    program = edge.to_executorch(et.ExecutorchBackendConfig(compatible=True))
    bundled = BundledProgram(program, [MethodTestSuite("forward", [MethodTestCase(inputs, model(*inputs))])])
    (tmp_path / "ours.bpte").write_bytes(serialize_from_bundled_program_to_flatbuffer(bundled))
    record = program.get_etrecord()
    record.update_representative_inputs(bundled)
    record.save(tmp_path / "ours.etrecord")
    if hasattr(et.Program, "write_etdump_result_to_file"):
        running = et.Runtime.get().load_program(program.buffer, enable_etdump=True, debug_buffer_size=200_000)
        method = running.load_method("forward")
        for _ in range(3):
            method.execute(inputs)
        running.write_etdump_result_to_file(tmp_path / "ours.etdp", tmp_path / "ours.bin")
    peer_script("devtools_peer.py", "read", tmp_path)
    seen = json.loads((tmp_path / "read.json").read_text())
    assert seen["suites"] == ["forward"] and seen["sizes"] == [4, 16] and seen["has_exported"]
    assert seen["expected"] == pytest.approx(model(*inputs).flatten().tolist(), abs=1e-6)
    assert seen["runs"] == pytest.approx(model(*inputs).flatten().tolist(), abs=1e-5)
    graph = record.edge_programs()["forward"].graph
    assert seen["handles"] == {node.name: node.meta.get("debug_handle") for node in graph.nodes}
    own = {str(number): handles for number, handles in record.debug_handle_map["forward"].items()}
    assert seen["handle_map"]["forward"] == own
    if "inspector" in seen:
        mine = told(tmp_path / "ours", Inspector)
        assert [row["raw"] for row in mine["rows"]] == [pytest.approx(row["raw"]) for row in seen["inspector"]["rows"]]
        assert [row["event_name"] for row in mine["rows"]] == [row["event_name"] for row in seen["inspector"]["rows"]]
        assert max(gap for _, gaps in seen["inspector"]["gaps"] for gap in gaps) < 1e-9
