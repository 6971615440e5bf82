"""What the compiler and the runtime of this process know about operators. Needs no torch.

>>> known_operators()["aten::add.Tensor"].kernel
'aten::add.out'
>>> [kernel.library for kernel in kernels_of_operator("aten::add.out")][-1]
'portable'
"""

import functools
from dataclasses import dataclass

from executorch_py import _core
from executorch_py.codegen.ops_yaml import DTYPE_GROUPS, DTYPES, TAGS

_DTYPE_NAMES = {code: name for name, code in DTYPES.items()}


@dataclass(frozen=True)
class OperatorInfo:
    """A row of the compiler's table (src/cpp/ops/ops.yaml).

    Attributes:
        name: Functional name, "aten::add.Tensor".
        kernel: Name of its kernel, "aten::add.out".
        schema: As PyTorch prints it.
        dtypes: Element types of the main tensor that a kernel takes, as ScalarType's numbers; empty: not said.
        tags: What it is: "core", "pointwise", ...
        is_published: The official runtime has the kernel, too.
    """

    name: str
    kernel: str
    schema: str
    dtypes: frozenset[int]
    tags: tuple[str, ...]
    is_published: bool

    def takes(self, code: int) -> bool:
        """Whether a kernel has main tensors of this ScalarType; yes where the table does not say."""
        return not self.dtypes or code in self.dtypes

    @property
    def dtype_text(self) -> str:
        """The element types by their short names, groups by theirs: ``any complex``."""
        left = {_DTYPE_NAMES[code] for code in self.dtypes if code in _DTYPE_NAMES}
        words = []
        for group, members in sorted(DTYPE_GROUPS.items(), key=lambda item: -len(item[1])):
            if left.issuperset(members):
                words.append(group)
                left.difference_update(members)
        return " ".join([*words, *(name for name in DTYPES if name in left)])


@dataclass(frozen=True)
class KernelInfo:
    """One registered kernel.

    Attributes:
        name: "aten::add.out".
        library: "portable", "optimized", a backend's or a kernel library's name.
        variant: What it is specialised for, "self=f32/channels_last"; "" = nothing.
        priority: Higher is tried first.
        signature: One letter a parameter (src/cpp/runtime/unboxing.h); "" = it looks at its arguments itself.
        may_step_aside: It looks at each call at load, and the next one is taken where it does not fit.
    """

    name: str
    library: str
    variant: str
    priority: int
    signature: str
    may_step_aside: bool

    @property
    def label(self) -> str:
        """Library and variant in a word: ``my_ops[self=f32]``."""
        return f"{self.library}[{self.variant}]" if self.variant else self.library


@functools.cache
def known_operators() -> dict[str, OperatorInfo]:
    """The compiler's table, by functional name."""
    return {
        name: OperatorInfo(
            name,
            kernel,
            schema,
            frozenset(dtypes),
            tuple(tag for bit, tag in enumerate(TAGS) if tags >> bit & 1),
            is_published,
        )
        for name, kernel, schema, _kernel_schema, dtypes, tags, is_published in _core.operator_table()
    }


def registered_kernels() -> dict[str, list[KernelInfo]]:
    """Kernel name -> the kernels of that name that are registered now, in the order in which load tries them."""
    kernels: dict[str, list[KernelInfo]] = {}
    for row in _core.kernel_table():
        kernels.setdefault(row[0], []).append(KernelInfo(*row))
    return kernels


def kernels_of_operator(kernel_name: str) -> list[KernelInfo]:
    """The kernels of one name, in the order in which load tries them."""
    return registered_kernels().get(kernel_name, [])


def operators_page() -> str:
    """docs/reference/operators.md, made from what this build holds."""
    kernels = registered_kernels()
    operators = sorted(known_operators().values(), key=lambda op: op.name)
    groups = "; ".join(f"`{name}` = {' '.join(members)}" for name, members in DTYPE_GROUPS.items())
    with_kernel = {op.kernel for op in operators if op.kernel in kernels}
    lines = [
        "# Operators",
        "",
        "Made by `etpy ops --markdown` from the tables of a build with its default backends; a test checks that it is "
        "current,",
        "and another measures that each kernel takes the element types that stand here.",
        "",
        f"{len(operators)} operators, {len(with_kernel)} kernels. *Implementations*, in the order in which load tries "
        "them: a",
        "kernel with a `?` looks at the call (element types, memory order, constant weights) and steps aside where it "
        "does not",
        "fit; `portable` and `prim` take everything that stands under *element types*. *Published*: the official "
        "runtime has",
        f"the kernel too, so that `ExecutorchBackendConfig(compatible=True)` may emit it. Element types: {groups}.",
        "",
        "| operator | kernel | element types | implementations | published | tags |",
        "|---|---|---|---|---|---|",
    ]
    for op in operators:
        lines.append(
            f"| `{op.name}` | `{op.kernel}` | {op.dtype_text} | {_implementations(kernels.get(op.kernel, []))} | "
            f"{'yes' if op.is_published else ''} | {' '.join(op.tags)} |"
        )
    known = {op.kernel for op in operators}
    others = [name for name in sorted(kernels) if name not in known and not _is_plugin(kernels[name])]
    lines += ["", "Kernels that programs call and models do not name:", "", "| kernel | implementations |", "|---|---|"]
    lines += [f"| `{name}` | {_implementations(kernels[name])} |" for name in others]
    return "\n".join(lines) + "\n"


def _implementations(kernels: list[KernelInfo]) -> str:
    names = [f"{kernel.label}{'?' if kernel.may_step_aside else ''}" for kernel in kernels if not _is_plugin([kernel])]
    return " ".join(dict.fromkeys(names)) or "none"


def _is_plugin(kernels: list[KernelInfo]) -> bool:
    """Whether what a process loaded beside the build is all there is."""
    return all(kernel.priority >= 200 for kernel in kernels)
