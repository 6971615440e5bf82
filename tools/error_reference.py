#!/usr/bin/env python3
"""Writes the page on errors: what each code means, why it comes, what to do.

    python tools/error_reference.py > docs/reference/errors.md

Names, values, classes and meanings are those of src/cpp/base/error_codes.def; causes and remedies stand here. A test
compares the page, and holds every code against this table.
"""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
_ENTRY = re.compile(r'^ET_ERROR\((\w+), (0x\w+), ([\w-]+), "(.*)"\)$', re.MULTILINE)


class Advice(NamedTuple):
    """Why a code comes, and what to do about it: sentences, with code in backticks."""

    causes: tuple[str, ...]
    remedies: tuple[str, ...]


ADVICE = {
    "Internal": Advice(
        ("The compiler's verifier found a graph that breaks a rule, or the runtime met a state that cannot be.",),
        (
            "Report it, with the program or a small model: it is a mistake of this library.",
            "`etpy doctor` says what to add.",
        ),
    ),
    "InvalidState": Advice(
        (
            "A `Method` runs already, on another thread or in a callback.",
            "An input was never set, or a tracer records for another execution.",
            "The record of a program without `enable_etdump` was read.",
            "A weight was changed after `to_executorch`.",
        ),
        ('Give each thread a method of its own: `program.load_method("forward", session=program.new_session())`.',),
    ),
    "EndOfMethod": Advice(
        ("The method has no instruction left: `step` ran them all.",), ("Set the inputs; the next `step` begins anew.",)
    ),
    "AlreadyLoaded": Advice(
        ("Kept for the published list, as objects of this package are loaded when made; a backend may return it.",),
        ("Use what is loaded.",),
    ),
    "Cancelled": Advice(
        ("Another thread called `method.cancel()`, or a signal handler did not raise.",),
        ("Nothing is broken: execute again.",),
    ),
    "NotSupported": Advice(
        (
            "The build lacks something: a backend, a dtype of a selective build, an instruction set.",
            "An operator, dtype or option that this component does not do; the message says which and what it can do.",
        ),
        ("`etpy doctor` lists what this build has; `etpy ops model.pte` what a program needs.",),
    ),
    "NotImplemented": Advice(
        ("A backend or kernel of your own says that it does not do this.",),
        ("Look into that backend's documentation.",),
    ),
    "InvalidArgument": Advice(
        (
            "A size is outside of what the method was exported for: without `dynamic_shapes` every size is fixed.",
            "Another number of inputs than the method takes, or other relations between their sizes.",
            "An index that a kernel got is out of range, such as a token id beyond the vocabulary.",
        ),
        (
            "`etpy inspect model.pte` shows the inputs with their bounds.",
            'Export with the sizes that change: `torch.export.export(model, x, dynamic_shapes=({0: Dim("batch")},))`.',
        ),
    ),
    "InvalidType": Advice(
        (
            "An input has another dtype than the method takes, such as float64 of numpy for float32.",
            "A value is no tensor.",
        ),
        ('`x.astype("float32")`, `x.float()`; `etpy inspect` shows the dtypes.',),
    ),
    "OperatorMissing": Advice(
        (
            "The program calls an operator that no kernel in this process computes, such as a custom one.",
            "A kernel is there, but not for these dtypes, or the build was made with `ET_SELECT_OPS`.",
        ),
        (
            "`etpy ops model.pte` names each one and the reason.",
            'Load the library first: `Runtime.get().load_plugin("libkernels.so")`.',
            "For a selective build: `etpy select model.pte -o kernels.txt`, then build with that list.",
        ),
    ),
    "RegistrationExceedingMaxKernels": Advice(
        ("More kernels are registered than the registry has room for.",),
        ("Build with a larger registry, or select kernels.",),
    ),
    "RegistrationAlreadyRegistered": Advice(
        ("A kernel or backend of this name is there, such as one library loaded under two paths.",),
        ("Load it once; give your own kernel another variant.",),
    ),
    "NotFound": Advice(
        ("The program has no method, named data or external entry of that name.", "A backend is not registered."),
        ("`program.method_names` and `program.named_data()` list what there is; `data_path=` takes `.ptd` files.",),
    ),
    "MemoryAllocationFailed": Advice(
        ("Planned memory, packed weights or scratch do not fit into what is left, or into the arena that was given.",),
        ("`etpy plan` says what lives at the peak, and which options save memory. In C++ give a larger arena.",),
    ),
    "AccessFailed": Advice(
        ("The file is not there, is a folder, or may not be read; a folder that is written to does not exist.",),
        ("The message has the path and the system's reason.",),
    ),
    "InvalidProgram": Advice(
        (
            "The file is cut off or damaged, or no `.pte`, such as a Git LFS pointer or a page of a web server.",
            "It is of another version of the format, or says something that no program may.",
        ),
        ("Export it again, or copy it again in binary mode. The message says which byte or instruction.",),
    ),
    "InvalidExternalData": Advice(
        ("A `.ptd` lacks a tensor that the program names, has it with another dtype or shape, or is damaged.",),
        ("Give the `.ptd` that was written beside this `.pte`.",),
    ),
    "OutOfResources": Advice(
        (
            "A limit was reached: jumps back (`max_backward_jumps`), threads, nesting, or a planned size.",
            "`debug_buffer_size` does not hold all values that were recorded.",
        ),
        ("Raise the limit that the message names, when the program may need it.",),
    ),
    "DelegateInvalidCompatibility": Advice(
        ("The payload was compiled for another version of the backend or its library, or is damaged.",),
        ("Lower the model again with the backend that will run it.",),
    ),
    "DelegateMemoryAllocationFailed": Advice(
        ("The backend has no memory left for weights or workspace.",), ("Delegate less, or free other methods first.",)
    ),
    "DelegateInvalidHandle": Advice(
        ("A backend of your own got a handle that its `init` did not make.",), ("Look at what `init` returns.",)
    ),
}

_HEAD = """# Errors: what, why, remedy

Written by `tools/error_reference.py`. An exception has its code (`error.code`) and places (`error.diagnostics`); in C++
functions return the code, and the message goes to the log hook. How errors travel, and what is checked where:
[error_handling.md](error_handling.md). The exit status 2 of [etpy](etpy.md) stands for each of them.
"""


def codes() -> list[tuple[str, str, str, str]]:
    """Name, value, Python class and meaning of each code."""
    return _ENTRY.findall((ROOT / "src/cpp/base/error_codes.def").read_text(encoding="utf-8"))


def _list(title: str, sentences: tuple[str, ...]) -> str:
    items = (textwrap.fill(f"- {one}", 120, subsequent_indent="  ", break_on_hyphens=False) for one in sentences)
    return "\n".join([f"**{title}**", "", *items, ""])


def page() -> str:
    """The page, in Markdown."""
    parts = [_HEAD]
    for name, value, python, meaning in codes():
        if name == "Ok":
            continue
        advice = ADVICE[name]
        parts.append(f"## {name}\n\n`{value}`, `executorch_py.{python}`: {meaning}.\n")
        parts += [_list("Why", advice.causes), _list("Remedy", advice.remedies)]
    return "\n".join(parts)


if __name__ == "__main__":
    print(page(), end="")
