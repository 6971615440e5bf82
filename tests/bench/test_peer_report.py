"""The table of `make bench`: ratios, shares of the machine's peak, what is missing."""

import math
import time
from dataclasses import replace

import pytest
import torch
from torch import nn

from benchmarks.peers.models import CHOSEN, MODELS
from benchmarks.peers.peak import Peak, macs_of
from benchmarks.peers.report import Figure, by_isa, placement, ratio, row_text, summary


def test_registers_do_more_than_a_product(tmp_path):
    """No kernel is above the peak: eager's product of matrices is not, and is no thousandth of it. Neighbours slow
    either of the two down for a while, so both are taken again until they fit.
    """
    peak = Peak(tmp_path)
    a, b = torch.randn(256, 256), torch.randn(256, 256)
    threads = torch.get_num_threads()
    rates: dict[str, list[float]] = {"fp32": [], "int8": []}
    for _ in range(10):
        times = []
        for _ in range(20):
            start = time.perf_counter()
            a @ b
            times.append(time.perf_counter() - start)
        for kind, known in rates.items():
            known.append(peak.rate(kind, threads))
        fp32, int8 = max(rates["fp32"]), max(rates["int8"])
        rate = 256**3 / min(times)
        if 1e-3 * fp32 < rate < 2 * fp32 and (math.isnan(int8) or int8 > 0.5 * fp32):
            return
    raise AssertionError(
        f"eager {rate:.3g} multiplications a second, registers {fp32:.3g} (fp32) and {int8:.3g} (int8)"
    )


def test_a_models_multiplications(tmp_path):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).eval()
    inputs = (torch.randn(2, 3, 8, 8),)
    torch.save(list(inputs), tmp_path / "small.inputs.pt")
    torch.export.save(torch.export.export(model, inputs), tmp_path / "small.pt2")
    assert macs_of("small", tmp_path) == 2 * (36 * 8 * 27 + 288 * 10)


def figures(ours, theirs):
    make = {"macs": 10**9, "peak_rate": 5e10, "load_ms": 1.0, "first_ms": 2.0, "peak_bytes": 2**20, "file_bytes": 2**20}
    return [
        Figure("net", "fp32", 1, "ours", times=ours, **make),
        Figure("net", "fp32", 1, "onnxruntime", times=theirs, **make),
        Figure("net", "fp32", 1, "openvino", reason="no such operator"),
    ]


def test_a_ratio_is_of_rounds():
    """Two of five rounds were on a slow core; the medians of both engines are of different rounds."""
    assert ratio(figures([10.0, 10.0, 10.0, 30.0, 30.0], [13.0, 12.0, 12.5, 40.0, 12.4])) == pytest.approx(10 / 12.5)


def test_rows_and_summary():
    rows = figures([40.0, 40.0, 44.0], [50.0, 50.0, 50.0])
    assert ratio(rows) == pytest.approx(0.8)
    assert rows[0].of_peak == pytest.approx(0.5) and math.isnan(rows[2].of_peak)
    text = row_text(rows)
    assert "50.0%" in text and "no such operator" in text and "ours / onnxruntime: 0.800" in text
    assert "above" not in text and "above" in row_text(figures([60.0], [50.0]))
    assert "0 of 1 rows above" in summary(rows) and "50.0%" in summary(rows)


def test_a_row_that_only_one_side_ran():
    rows = figures([40.0], [50.0])[:1]
    assert math.isnan(ratio(rows)) and "net, fp32, 1 thr." in summary(rows)


def test_the_ratio_is_that_of_the_default():
    """A user does not try both: a delegate that is slower than none counts, and the table says what it costs."""
    rows = figures([30.0], [50.0])
    rows.append(replace(rows[0], engine="ours+xnnpack", times=[60.0]))
    assert ratio(rows) == pytest.approx(1.2)
    assert placement(rows) == pytest.approx(2.0) and "2.000" in summary(rows)
    assert math.isnan(placement(rows[:2])) and ratio(rows[:2]) == pytest.approx(0.6)


def test_the_chosen_rows_are_a_third():
    assert set(CHOSEN) < set(MODELS) and len(CHOSEN) <= len(MODELS) / 3


def test_instruction_sets_stand_side_by_side():
    table = by_isa({"avx2": figures([8.0], [10.0]), "avx512": figures([6.0], [4.0])}).splitlines()
    assert table[2].split() == ["net,", "fp32,", "1", "thr.", "8", "0.80", "6", "1.50"]
    assert table[3].split() == ["geometric", "mean", "0.80", "1.50"]
