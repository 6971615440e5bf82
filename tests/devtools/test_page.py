"""Pages of profiles: whole, without network, and drawn by a real browser where one is installed."""

import re
import shutil
import subprocess

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py.devtools import Inspector, memory_report
from tests.devtools.models import two_blocks
from tests.devtools.test_shown import Balanced


def write_page(path, partitioner=None):
    model, inputs = two_blocks()
    exported = torch.export.export(model, inputs)
    program = et.to_edge_transform_and_lower(exported, partitioner=partitioner).to_executorch()
    loaded = et.Runtime.get().load_program(program.buffer, enable_etdump=True)
    method = loaded.load_method("forward")
    for _ in range(5):
        method.execute(inputs)
    inspector = Inspector.of(loaded, program.get_etrecord())
    inspector.to_html(path, title="two <blocks>", memory=memory_report(program))
    return path.read_text()


@pytest.mark.parametrize("partitioner", [None, [XnnpackPartitioner(always=True)]])
def test_a_page_is_whole(tmp_path, partitioner):
    text = write_page(tmp_path / "page.html", partitioner)
    assert not re.search(r"https?://|src=|@import|<link", text), "a page takes nothing from elsewhere"
    assert "two &lt;blocks&gt;" in text and "<blocks>" not in text
    parser = Balanced()
    parser.feed(text.replace("<!DOCTYPE html>", ""))
    assert not parser.open
    for part in (
        "Time by operator",
        "Time by line",
        "Flame chart",
        "Graph:",
        "Planned memory",
        "models.py:17",
        'class="bar"',
        ">p90, ms<",
        "at the peak, step ",
        "<span>step 0</span>",
        "<span>0</span>",
    ):
        assert part in text, part
    assert ('class="part"' in text) == (partitioner is not None), "delegates are boxes"
    assert "prefers-color-scheme: dark" in text


def test_a_browser_draws_it(tmp_path):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium (apt-get install chromium)")
    write_page(tmp_path / "page.html", [XnnpackPartitioner(always=True)])
    sizes = set()
    for width in (1300, 420):
        shot = tmp_path / f"{width}.png"
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},1500"]
        subprocess.run(
            [*command, f"--screenshot={shot}", f"file://{tmp_path}/page.html"], check=True, capture_output=True
        )
        sizes.add(shot.stat().st_size)
    assert len(sizes) == 2 and min(sizes) > 20_000, "the pictures are empty"
