"""Per-layer reports of whole models: every layer has its counterpart, and 8 bits cost what 8 bits cost."""

import math

import pytest
import torch
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from tests.models.zoo import ZOO


def _data(inputs, count=2):
    """Batches like the example inputs; what stands for an image differs from one to the next."""
    generator = torch.Generator().manual_seed(3)
    return [inputs, *(tuple(torch.rand(x.shape, generator=generator) for x in inputs) for _ in range(count - 1))]


@pytest.mark.parametrize(
    ("name", "products"),
    [
        ("ds_cnn", 10),
        ("vit_small", 18),
        pytest.param("mobilenet_v2", 53, marks=pytest.mark.slow),
        pytest.param("resnet18", 21, marks=pytest.mark.slow),
    ],
)
def test_every_layer_has_its_counterpart(name, products):
    method = ZOO[name]()["forward"]
    exported, data = method.export(), _data(method.inputs)
    program = quantizer.quantize(exported, method.inputs, "static_int8", data)
    report = et.quantization_report(exported, program, data)
    assert report.unmatched == (), report.summary()
    weighted = [row for row in report.layers if row.weight is not None]
    assert len(weighted) == products
    for row in weighted:
        assert row.alone.sqnr_db > 25, f"{row.name} ({row.where}): {row.alone.sqnr_db:.1f} dB"
        assert row.weight.granularity == "per channel"
        assert row.module_path
    assert not any(row.broken for row in report.layers)
    assert report.outputs[0].difference.cosine > 0.99
    assert et.count_macs(program, method.inputs).share() > 0.9


def test_recurrent_layer_as_a_loop():
    """The quantizer makes a loop of the LSTM: the report's float model has it, too."""
    method = ZOO["lstm"]()["forward"]
    data = _data(method.inputs)
    candidates = quantizer.Candidates.of(method.export(), method.inputs, "static_int8", data)
    report = candidates.report(data)
    assert report.unmatched == (), report.summary()
    assert {row.op for row in report.layers} >= {"linear"}
    assert all(row.alone.sqnr_db > 25 for row in report.layers if row.weight is not None)
    direct = et.quantization_report(candidates.float_program, candidates.program(), data)
    assert any(item.op == "lstm" and item.graph == "float" for item in direct.unmatched)  # said, not dropped
    theirs, ours = direct.outputs[0].difference, report.outputs[0].difference
    assert theirs.sqnr_db == pytest.approx(ours.sqnr_db, abs=0.01)  # one call and its steps round differently


def test_dynamic_and_weights_in_groups():
    method = ZOO["autoencoder"]()["forward"]
    exported, data = method.export(), [(torch.rand(1, 640),) for _ in range(3)]
    for preset, dtype, granularity in (
        ("dynamic_int8", "int8", "per channel"),
        ("dynamic_int4", "int4", "per group of 32"),
        ("int8_weight_only", "int8", "per channel"),
    ):
        report = et.quantization_report(exported, quantizer.quantize(exported, (), preset), data)
        assert report.unmatched == (), report.summary()
        weighted = [row for row in report.layers if row.weight is not None]
        assert len(weighted) == 10
        assert sum(row.weight.granularity == granularity for row in weighted) >= 9  # 8 columns make no group
        for row in weighted:
            assert row.weight.dtype == dtype
            assert (row.activation is not None) == preset.startswith("dynamic")
            assert row.alone is not None and row.alone.sqnr_db > 12


def test_where_nothing_was_compared_no_figure_looks_like_one():
    """Data of NaN gave layers an SQNR of inf and a cosine of 1."""
    model, data = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval(), [torch.randn(2, 4)] * 4
    exported = torch.export.export(model, (data[0],))
    program = quantizer.quantize(exported, (data[0],), "static_int8", data)
    report = et.quantization_report(exported, program, [torch.full((2, 4), math.nan)])
    for row in [*report.layers, *report.outputs]:
        assert all(math.isnan(value) for value in (row.difference.sqnr_db, row.difference.cosine)), row
    assert "inf" not in str(report).split("output")[1].replace("infinite", "")
    mixed = et.quantization_report(exported, program, [torch.full((2, 4), math.nan), data[0]])
    assert all(20 < row.difference.sqnr_db < 70 for row in mixed.outputs)
