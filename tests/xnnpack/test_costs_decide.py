"""Without options each part goes to the side that costs less, by the measured tables (docs/design/15)."""

import re

import pytest
import torch
from executorch_py.backends.xnnpack import Precision, XnnpackPartitioner
from torch import nn

import executorch_py as et
from executorch_py import quantizer
from executorch_py.errors import InvalidArgumentError
from tests.models.zoo import ZOO


def report(model: nn.Module, shape: tuple[int, ...], is_dynamic: bool = False, **options) -> et.DelegationReport:
    inputs = (torch.rand(shape),)
    exported = (
        quantizer.quantize(model.eval(), inputs, "dynamic_int8", [inputs])
        if is_dynamic
        else torch.export.export(model.eval(), inputs)
    )
    return et.delegation_report(et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner(**options)]))


def takes(*model, **options) -> bool:
    """Whether the delegate gets the model's products."""
    return bool(report(*model, **options).delegated("forward"))


def convolution(channels: int, kernel: int, groups: int = 1) -> nn.Module:
    return nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=groups)


SETS = ("avx2", "avx512", "amx")  # those that a file for any must do for
MODELS = {
    "3x3": (nn.Sequential(convolution(64, 3), nn.ReLU(), convolution(64, 3)), (1, 64, 28, 28)),
    "depthwise 7x7": (nn.Sequential(convolution(96, 1), convolution(96, 7, 96)), (1, 96, 28, 28)),
    "mobile block": (nn.Sequential(convolution(96, 1), convolution(96, 3, 96), convolution(96, 1)), (1, 96, 28, 28)),
    "prelu": (nn.Sequential(convolution(64, 1), nn.PReLU(64)), (1, 64, 28, 28)),
    "full tiles of rows": (nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256)), (70, 256)),
    "17 rows": (nn.Sequential(nn.Linear(256, 256), nn.Linear(256, 256)), (17, 256)),
    "one row": (nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128)), (1, 128)),
    "dynamic 1x1": (nn.Sequential(convolution(64, 1), convolution(64, 1)), (1, 64, 28, 28), True),
}


# A load may take XNNPACK's kernel for one operator. So a part is taken only for what the library computes faster and
# has in a delegate alone: convolutions of images that are quantized at the call, with VNNI.
@pytest.mark.parametrize(
    ("name", "avx2", "avx512", "amx", "for_any"),
    [
        ("3x3", False, False, False, False),
        ("depthwise 7x7", False, False, False, False),
        ("mobile block", False, False, False, False),
        ("prelu", False, False, False, False),
        ("dynamic 1x1", False, True, False, False),
        ("full tiles of rows", False, False, False, False),
        ("17 rows", False, False, False, False),
        ("one row", False, False, False, False),
    ],
)
def test_each_region_goes_where_it_costs_less(name: str, avx2: bool, avx512: bool, amx: bool, for_any: bool) -> None:
    found = {isa: takes(*MODELS[name], isa=isa) for isa in (*SETS, "any")}
    assert found == {"avx2": avx2, "avx512": avx512, "amx": amx, "any": for_any}


@pytest.mark.parametrize(
    "wish",
    [{"largest": True}, {"always": True}, {"per_op_mode": True}, {"config_precisions": Precision.FP32}],
    ids=lambda wish: next(iter(wish)),
)
def test_a_wish_wins_over_costs(wish: dict) -> None:
    assert takes(*MODELS["3x3"], **wish)


def test_files_for_the_official_runtime_are_delegated() -> None:
    model, shape = MODELS["3x3"]
    exported = torch.export.export(model.eval(), (torch.rand(shape),))
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    assert b"XnnpackBackend" not in edge.to_executorch(et.ExecutorchBackendConfig(debug_info=False)).buffer
    assert b"XnnpackBackend" in edge.to_executorch(et.ExecutorchBackendConfig(compatible=True, debug_info=False)).buffer


def test_the_report_gives_both_costs() -> None:
    taken = str(report(*MODELS["dynamic 1x1"], isa="avx512"))
    assert re.search(r"part 0: its part costs [0-9.]+ us .* in kernels \(avx512\), [0-9.]+ us less", taken)
    left = str(report(*MODELS["3x3"], isa="any"))
    assert "not delegated: 3 operators: its part would cost" in left
    for isa in SETS:
        assert re.search(rf"us in kernels \({isa}\), [0-9.]+ us more", left)


def test_a_part_that_saves_on_each_processor_is_delegated() -> None:
    exported = {method: entry.export() for method, entry in ZOO["llama"]().items()}
    report = et.delegation_report(et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]))
    saves = ", ".join(rf"[0-9.]+ us against [0-9.]+ us in kernels \({isa}\), [0-9.]+ us less" for isa in SETS)
    assert report.delegated("decode") and re.search(f"part 0: its part costs {saves}", report.summary())


# What was measured to be slower in the delegate with AVX2 and with AVX-512 (docs/lab/benchmarks.md).
@pytest.mark.parametrize("name", ["ds_cnn", "unet", "detection_head"])
def test_convolutional_networks_of_the_zoo_stay_with_the_kernels(name: str) -> None:
    exported = {method: entry.export() for method, entry in ZOO[name]().items()}
    edge = et.to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    assert not et.delegation_report(edge).delegated("forward")


def test_the_published_path_takes_the_largest_parts() -> None:
    from executorch_py.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner as Published

    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()).eval(), (torch.randn(1, 8),)
    kinds = {"ours": XnnpackPartitioner(), "costs": Published(largest=False), "theirs": Published()}
    taken = {
        kind: et.delegation_report(
            et.to_edge_transform_and_lower(torch.export.export(model, x), partitioner=[partitioner])
        ).delegated("forward")
        for kind, partitioner in kinds.items()
    }
    assert isinstance(kinds["theirs"], XnnpackPartitioner) and taken["theirs"] and taken["ours"] == taken["costs"]


def test_an_unknown_processor_is_an_error() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"isa is 'avx', must be of any, sse4\.1, avx2, avxvnni, avx512, amx, arm"
    ):
        XnnpackPartitioner(isa="avx")
