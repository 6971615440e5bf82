"""The files of generated code: a header for C, one C++ file, and the bytes of the constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from executorch_py.codegen.ops_yaml import Op
from executorch_py.element_types import torch_name

from .layout import Layout
from .literals import identifier
from .method_source import MethodSource, strides_of
from .plan import Call, Method, Plan, Tensor

__all__ = ["generated_sources", "prefix_of", "source_of_call"]


@dataclass(frozen=True)
class _Names:
    """Names of the functions that one method has in C."""

    prefix: str

    def define(self, kind: str, i: int, what: str) -> str:
        return f"{self.prefix.upper()}_{kind}_{i}_{what}"


def prefix_of(name: str, method: str, plan: Plan) -> str:
    """What the C functions of a method begin with: the model's name, and the method's where there are others."""
    return name if method == "forward" or len(plan.methods) == 1 else f"{name}_{identifier(method)}"


def source_of_call(call: Call, ops: Mapping[str, Op]) -> str:
    """The header that declares a call's kernel."""
    if call.library in ("cortex_m", "prim"):
        return {"cortex_m": "kernels/cortex_m/kernels.h", "prim": "kernels/prim/prim_kernels.h"}[call.library]
    kernel = ops[call.kernel].kernel or ""
    return f"kernels/{call.library}/{kernel.rpartition('/')[2].removesuffix('.cpp')}.h"


def generated_sources(
    name: str, plan: Plan, layout: Layout, ops: Mapping[str, Op], scratch: int, origin: str
) -> dict[str, str]:
    """NAME.h and NAME.cpp. ``scratch``: bytes for kernels; ``origin``: a sentence on where the number is from."""
    shapes: dict[str, Tensor] = {}
    methods = [MethodSource(method, layout, ops, shapes) for method in plan.methods.values()]
    bodies = [one.text() for one in methods]
    statics = [line for one in methods for line in one.statics()]
    calls = [step for method in plan.methods.values() for step in method.steps if isinstance(step, Call)]
    includes = sorted({source_of_call(call, ops) for call in calls})
    parts = [
        f"// Written by `etpy build`: {name} as straight-line code. Do not edit.",
        f'#include "{name}.h"\n',
        "#include <cstring>\n",
        '#include "native.h"',
        *(f'#include "{one}"' for one in includes),
        "",
        f'extern "C" const unsigned char {name}_weights[{max(len(layout.weights), 1)}];\n',
        "namespace {\n",
        "using namespace et;           // NOLINT(google-build-using-namespace): generated code, not a header",
        "using namespace et::kernels;  // NOLINT(google-build-using-namespace)",
        "using namespace et::native;   // NOLINT(google-build-using-namespace)\n",
        f"constexpr const unsigned char* weights = {name}_weights;",
        *(f"alignas(16) uint8_t {identifier(array)}[{max(nbytes, 1)}];" for array, nbytes in layout.arrays.items()),
        f"constexpr size_t kScratch = {scratch};  // {origin}",
        "alignas(64) uint8_t scratch_memory[kScratch == 0 ? 1 : kScratch];",
        "size_t scratch_used = 0;",
        "const char* failed_in = nullptr;",
        *(["bool has_state = false;"] if layout.initial else []),
        *statics,
        "",
        "__attribute__((cold, noinline)) Error failed(const char* name, Error error) {",
        "  failed_in = name;",
        "  return error;",
        "}\n",
        *(_shape(shape, tensor) for shape, tensor in sorted(shapes.items())),
        "",
        *bodies,
        "}  // namespace\n",
        'extern "C" {\n',
        *_state_functions(name, layout),
        *(line for one, method in zip(methods, plan.methods.values(), strict=True)
          for line in [*_functions(prefix_of(name, method.name, plan), one, method, bool(layout.initial), name),
                       *_size_functions(prefix_of(name, method.name, plan), one, method)]),
        f"const char* {name}_failed(void) {{ return failed_in; }}",
        f"size_t {name}_scratch_used(void) {{ return scratch_used; }}\n",
        '}  // extern "C"',
    ]  # fmt: skip
    return {f"{name}.h": _header(name, plan, layout), f"{name}.cpp": "\n".join(parts) + "\n"}


def _shape(name: str, tensor: Tensor) -> str:
    lists = (tensor.sizes, strides_of(tensor), tensor.dim_order)
    texts = ", ".join(f"{{{', '.join(map(str, one))}}}" for one in lists)
    return f"constexpr Shape<{len(tensor.sizes)}> {name}{{{texts}}};"


def _state_functions(name: str, layout: Layout) -> list[str]:
    if not layout.initial:
        return [f"void {name}_reset_state(void) {{}}\n"]
    lines = [f"void {name}_reset_state(void) {{"]
    for place, content in layout.initial:
        at = f"{identifier(place.array)} + {place.offset}"
        if any(content):
            lines.append(f"  memcpy({at}, weights + {layout.constant(content).offset}, {len(content)});")
        else:
            lines.append(f"  memset({at}, 0, {len(content)});")
    return [*lines, "  has_state = true;", "}\n"]


def _functions(prefix: str, source: MethodSource, method: Method, has_state: bool, name: str) -> list[str]:
    first = [f"  if (!has_state) {{\n    {name}_reset_state();\n  }}"] if has_state else []
    inputs = [source.input_pointer(i) for i in method.inputs]
    outputs = [source.pointer(i) for i in method.outputs]
    return [
        f"int {prefix}_run(void) {{",
        *first,
        "  static runtime::RandomState random_state;",
        "  failed_in = nullptr;",
        *source.checks(),
        "  Scratch scratch(scratch_memory, kScratch, &scratch_used);",
        "  KernelContext context(&scratch, nullptr, nullptr, &random_state, nullptr);",
        f"  return static_cast<int>({source.function}(context));",
        "}\n",
        *_choice(f"void* {prefix}_input(int index)", inputs),
        *_choice(f"const void* {prefix}_output(int index)", outputs),
    ]


def _size_functions(prefix: str, source: MethodSource, method: Method) -> list[str]:
    if not method.is_dynamic:
        return []
    resized = [call and f"static_cast<int>({call})" for call in map(source.resize, method.inputs)]
    head = f"int {prefix}_resize_input(int index, const int64_t* sizes)"
    return [
        *_choice(head, resized, "static_cast<int>(Error::InvalidArgument)"),
        *_choice(f"const int64_t* {prefix}_output_sizes(int index)", [source.sizes(i) for i in method.outputs]),
    ]


def _choice(head: str, results: Sequence[str], otherwise: str = "nullptr") -> list[str]:
    """A function that returns one of the results by its index; "" is none."""
    cases = [f"    case {i}: return {result};" for i, result in enumerate(results) if result]
    if not cases:
        return [f"{head.replace('int index', 'int')} {{ return {otherwise}; }}\n"]
    return [f"{head} {{", "  switch (index) {", *cases, f"    default: return {otherwise};", "  }", "}\n"]


def _header(name: str, plan: Plan, layout: Layout) -> str:
    lines = [
        f"/* Written by `etpy build`: {name} as straight-line code.",
        " *",
        f" * {len(layout.weights)} bytes of constants, {sum(layout.arrays.values())} bytes of memory for tensors. "
        "Nothing is allocated. One call at a time.",
        " */",
        "#pragma once\n",
        "#include <stddef.h>",
        *(["#include <stdint.h>"] if any(one.is_dynamic for one in plan.methods.values()) else []),
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif\n",
        "/* What a call that returned no 0 ended in: an operator's name; NULL after a call that returned 0. */",
        f"const char* {name}_failed(void);",
        "/* Puts what lasts from call to call to its first values. The first call does so by itself. */",
        f"void {name}_reset_state(void);",
        "/* The most bytes of scratch memory that any call took. */",
        f"size_t {name}_scratch_used(void);",
    ]
    for method in plan.methods.values():
        lines += _declarations(prefix_of(name, method.name, plan), method)
    return "\n".join([*lines, "", "#ifdef __cplusplus", "}", "#endif", ""])


def _declarations(prefix: str, method: Method) -> list[str]:
    lines = [
        f"\n/* Method {method.name}: write all inputs, run, read the outputs before the next run. 0, or an error code "
        "of executorch_py",
        " * (docs/reference/errors.md). */",
        f"int {prefix}_run(void);",
        "/* Memory of an input, which a run may write over; NULL for what was fixed when the model was exported.",
        " * Numbers are int64_t, double or bool. */",
        f"void* {prefix}_input(int index);",
        "/* Memory of an output; NULL for None. Numbers are int64_t, double or bool. */",
        f"const void* {prefix}_output(int index);",
    ]
    if method.is_dynamic:
        lines += [
            "/* Gives an input other sizes, RANK numbers of at most those of SHAPE, until it gets others. Write its",
            " * elements after that. 0, or an error code; a run sees whether inputs agree. */",
            f"int {prefix}_resize_input(int index, const int64_t* sizes);",
            "/* Sizes of an output after a run; NULL for what is no tensor. */",
            f"const int64_t* {prefix}_output_sizes(int index);",
        ]
    lines.append("enum {")
    names = _Names(prefix)
    for kind, places in (("INPUT", method.inputs), ("OUTPUT", method.outputs)):
        lines.append(f"  {prefix.upper()}_NUM_{kind}S = {len(places)},")
        for i, place in enumerate(places):
            value = method.values[place]
            if isinstance(value, Tensor):
                told = f"{torch_name(value.dtype)} {[*value.sizes]}" + (" at the most" if value.is_dynamic else "")
                lines.append(f"  {names.define(kind, i, 'BYTES')} = {value.nbytes}, /* {told} */")
                lines.append(f"  {names.define(kind, i, 'RANK')} = {len(value.sizes)},")
    lines.append("};")
    for kind, places in (("INPUT", method.inputs), ("OUTPUT", method.outputs)):
        for i, place in enumerate(places):
            value = method.values[place]
            if isinstance(value, Tensor):
                lines.append(f'#define {names.define(kind, i, "DTYPE")} "{torch_name(value.dtype)}"')
                lines.append(f"#define {names.define(kind, i, 'SHAPE')} {{{', '.join(map(str, value.sizes))}}}")
    return lines
