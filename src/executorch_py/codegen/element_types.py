"""The element types of programs, read from the one list of them: src/cpp/base/dtype.def.

>>> [one for one in ELEMENT_TYPES if one.text == "f32"]
[ElementType(name='Float', number=6, text='f32', nbytes=4, word='float32')]
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_ROW = re.compile(r"^ET_DTYPE\((\w+), (\d+), [^,]+, (\w+), (\d+), (\w+)\)$", re.MULTILINE)


@dataclass(frozen=True)
class ElementType:
    """A row of the list.

    Attributes:
        name: PyTorch's name of the ScalarType, "Float".
        number: Its value, which is the number that files have.
        text: Name in the IR's text form and in tables, "f32".
        nbytes: Bytes of an element.
        word: Name of the dtype in PyTorch and, where numpy has it, in numpy: "float32".
    """

    name: str
    number: int
    text: str
    nbytes: int
    word: str


def _definition() -> Path:
    """The list in a source tree, or among the headers of an installed package."""
    here = Path(__file__).resolve()
    places = (here.parents[2] / "cpp/base/dtype.def", here.parents[1] / "include/executorch_py/base/dtype.def")
    return next(place for place in places if place.exists())


ELEMENT_TYPES: tuple[ElementType, ...] = tuple(
    ElementType(name, int(number), text, int(nbytes), word)
    for name, number, text, nbytes, word in _ROW.findall(_definition().read_text(encoding="utf-8"))
)


#: Names that a person reads or writes, torch's -> those of tables.
TEXTS: dict[str, str] = {one.word: one.text for one in ELEMENT_TYPES}


def told(texts: Iterable[str]) -> list[str]:
    """Element types by torch's names, sorted: ["float32", "int64"] of {"i64", "f32"}."""
    words = {one.text: one.word for one in ELEMENT_TYPES}
    return sorted(words[text] for text in texts)


def python_module() -> str:
    """Text of executorch_py/_element_types.py, which a build makes."""
    complex_last = {
        one.name: (one.word if one.word.startswith("complex") else one.name).upper() for one in ELEMENT_TYPES
    }
    return "\n".join([
        '"""Generated from src/cpp/base/dtype.def. Do not edit."""\n',
        "import enum\n\n",
        "class ScalarType(enum.IntEnum):",
        '    """Element types; the numbers are PyTorch\'s and the file format\'s."""\n',
        *(f"    {one.name} = {one.number}" for one in ELEMENT_TYPES),
        "\n    # The same under their published names.",
        *(f"    {complex_last[one.name]} = {one.number}" for one in ELEMENT_TYPES),
        "\n\n#: Torch's names.",
        f"TORCH_NAMES = {{{', '.join(f'{one.number}: {one.word!r}' for one in ELEMENT_TYPES)}}}\n",
        "#: Bytes of an element.",
        f"ITEM_SIZES = {{{', '.join(f'{one.number}: {one.nbytes}' for one in ELEMENT_TYPES)}}}\n",
    ])  # fmt: skip
