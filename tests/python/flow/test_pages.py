"""The pages about control flow and dynamic shapes run as written, block after block."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[3] / "docs/how-to"


@pytest.mark.parametrize("page", ["control_flow.md", "dynamic_shapes.md"])
def test_page(page):
    text = (DOCS / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert len(blocks) > 2
    exec(compile("\n".join(blocks), page, "exec"), {"__name__": page})
