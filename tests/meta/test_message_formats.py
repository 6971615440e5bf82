"""Messages of what a microcontroller gets use the formats that base/format.h knows, and no other formatter."""

from __future__ import annotations

import re

from repository import ROOT, tracked_files

FOLDERS = ("src/cpp/base", "src/cpp/numerics", "src/cpp/runtime", "src/cpp/threads", "src/cpp/kernels/portable",
           "src/cpp/kernels/prim", "src/cpp/kernels/quantized", "src/cpp/kernels/cortex_m", "src/cpp/devtools",
           "src/cpp/platform", "backends/tosa/runtime", "backends/ethos_u/runtime")  # fmt: skip
#: For hosts only, besides each folder `host`.
HOSTS = ("src/cpp/base/format.cpp", "src/cpp/runtime/platform_posix.cpp", "src/cpp/platform/ports/posix.cpp")
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
CONVERSION = re.compile(r"%[-+ #0-9.*hljztL]*.?")
KNOWN = re.compile(r"%(%|c|p|(\.(\d+|\*))?s|(\.([1-9]|\*))?g|(l|ll|z|j|t)?[diux]|)")  # the last: before a PRI macro


def sources() -> dict[str, str]:
    found = {}
    for path in tracked_files():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(FOLDERS) and path.suffix in (".h", ".cpp") and "/host/" not in name and name not in HOSTS:
            text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
            found[name] = re.sub(r"\b(__)?asm(__)?\b[^;]*;", "", text)
    return found


def test_each_format_of_a_message_is_known() -> None:
    assert len(sources()) > 300
    unknown = [
        f"{name}: {literal}"
        for name, text in sources().items()
        for literal in LITERAL.findall(text)
        for conversion in CONVERSION.findall(literal)
        if not KNOWN.fullmatch(conversion)
    ]
    assert unknown == []


def test_nothing_calls_the_formatter_of_the_c_library() -> None:
    called = [
        name
        for name, text in sources().items()
        if re.search(r"\bv?s?n?f?printf\(", re.sub(r"format\(printf", "", text))
    ]
    assert called == []
