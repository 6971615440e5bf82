"""docs/how-to/using_c.md from beginning to end."""

from tests.python.custom.page import BLOCK, ROOT, work_through

PAGE = (ROOT / "docs/how-to/using_c.md").read_text()


def test_the_page(tmp_path):
    _, output = work_through("using_c.md", tmp_path)
    lines = output.splitlines()
    first, static = [line for line in lines if line.startswith("4 numbers, the first is ")]
    assert first == static
    ctypes = next(line for line in lines if line.startswith("ctypes: ["))
    assert abs(float(first.split()[-1]) - float(ctypes.removeprefix("ctypes: [").split(",")[0])) < 1e-5
    assert any(line.startswith("refused: input 0") and "size 2" in line for line in lines)
    program = next(text for _, name, text in BLOCK.findall(PAGE) if name == "first.c")
    assert len([line for line in program.splitlines() if line.strip()]) <= 12
