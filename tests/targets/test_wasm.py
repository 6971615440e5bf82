"""WebAssembly projects: node gives the host's outputs, and a page in a browser classifies a picture."""

from __future__ import annotations

import functools
import http.server
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import executorch_py as et
from executorch_py import quantizer
from executorch_py.firmware import TARGETS, FirmwareReport, write_firmware
from executorch_py.firmware.build import missing_tools

image = pytest.importorskip("PIL.Image", reason="pillow is not installed (make build installs it)")


class Pictures(torch.nn.Module):
    """Three channels of 20 by 24 pixels to six classes."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(8, 12, 3, padding=1, groups=4), torch.nn.ReLU6(), torch.nn.AdaptiveAvgPool2d(1),
        )  # fmt: skip
        self.classifier = torch.nn.Linear(12, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.features(x).flatten(1))


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, (20, 24, 3), np.uint8)


@pytest.fixture(scope="module", params=["float32", "static_int8"])
def report(request, pixels: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> FirmwareReport:
    if missing := missing_tools(TARGETS["wasm"]):
        pytest.skip(f"{', '.join(missing)} is not installed (make targets-setup installs it)")
    torch.manual_seed(0)
    model = Pictures().eval()
    example = (torch.from_numpy(pixels).permute(2, 0, 1)[None].float() / 255,)  # channels lie last in memory
    if request.param == "float32":
        example = (example[0].contiguous(),)
    program = (
        torch.export.export(model, example)
        if request.param == "float32"
        else quantizer.quantize(model, example, request.param, [(torch.rand_like(example[0]),) for _ in range(4)])
    )
    lowered = et.to_edge_transform_and_lower(program).to_executorch()
    folder = tmp_path_factory.mktemp("wasm")
    lowered.save(folder / "model.pte")
    return write_firmware(folder / "model.pte", folder / "project", "wasm", inputs=example)


def test_node_gives_the_hosts_outputs(report: FirmwareReport) -> None:
    assert report.run is not None and report.run.matches, report
    assert "as on the host" in str(report) and report.image is None
    assert report.pools.method == report.run.method_bytes, "pools have the sizes that the run used"


@pytest.fixture
def served(report: FirmwareReport, pixels: np.ndarray) -> Iterator[str]:
    """Address of the page, with a picture beside it."""
    folder = report.folder / "build"
    image.fromarray(pixels).save(folder / "picture.png")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
        server.shutdown()


def shown(address: str) -> str:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium (make browser-setup installs it)")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom"]
    return subprocess.run([*command, address], check=True, capture_output=True, text=True, timeout=120).stdout


def test_a_page_classifies_a_picture(report: FirmwareReport, served: str, pixels: np.ndarray) -> None:
    text = shown(f"{served}?picture=picture.png&classes=a,b,c,d,e,f")
    assert ">ready: " in text, text[-2000:]
    found = re.findall(r"<li>(\w): ([-\d.e]+)</li>", text)
    example = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None] / np.float32(255), np.float32)
    (expected,) = (
        et.Runtime.get().load_program(report.folder.parent / "model.pte").load_method("forward").execute([example])
    )
    order = np.argsort(-np.asarray(expected)[0], kind="stable")[:5]
    assert [name for name, _ in found] == ["abcdef"[i] for i in order]
    np.testing.assert_allclose([float(score) for _, score in found], np.asarray(expected)[0][order], 1e-4, 1e-5)


def test_a_page_says_what_is_no_picture(served: str) -> None:
    assert "failed: nothing.png is no picture" in shown(f"{served}?picture=nothing.png")
