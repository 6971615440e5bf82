"""Makes the C++ around kernels of a published table (published_yaml.py): as kernel_library.py, whose files these are.

A kernel is written in the published way, in the namespace that the table names with ``native`` inside:
``Tensor& add_out(KernelRuntimeContext& context, const Tensor& self, …, Tensor& out)``.
"""

from __future__ import annotations

from .kernel_form import declaration
from .ops_yaml import MEMORY_ORDERS, TableError, dtype_mask
from .published_yaml import PublishedKernel

_REGISTER = """{head}#include "{library}/register.h"

#include "{library}/kernels.h"
#include "executorch_py/runtime/specialised_kernel.h"

namespace {namespace} {{
namespace {{

using namespace ::et::runtime;

{demands}
template <auto Function>
constexpr auto kRun = &::et::extension::detail::Adapted<Function>::run;

constexpr Kernel kKernels[] = {{
{entries}}};

constexpr const char* kVariants[] = {{
{variants}}};

}}  // namespace

::et::runtime::KernelTable kernel_table() {{ return {{kKernels, "{library}", kVariants}}; }}

::et::Error register_kernels(::et::runtime::KernelRegistry& registry) {{ return registry.add(kernel_table()); }}

}}  // namespace {namespace}
"""


def merged(kernels: list[PublishedKernel], fallback: list[PublishedKernel]) -> list[PublishedKernel]:
    """``kernels``, and of ``fallback`` those of other operators."""
    have = {kernel.schema.name for kernel in kernels}
    return [*kernels, *(kernel for kernel in fallback if kernel.schema.name not in have)]


def kernels_header(kernels: list[PublishedKernel], head: str) -> str:
    """<name>/kernels.h."""
    lines = [f"{head}#pragma once\n", '#include "executorch_py/extension/kernel_util/registration.h"']
    lines.append('#include "executorch_py/runtime/kernel_types.h"\n')
    declared: dict[str, str] = {}
    for kernel in kernels:
        name = kernel.function.rpartition("::")[2]
        parameters = declaration(kernel.schema).partition("(KernelContext& context")[2]
        text = f"{_result(kernel)} {name}(KernelRuntimeContext& context{parameters}"
        if declared.setdefault(kernel.function, text) != text:
            raise TableError(
                f"{kernel.schema.name}: {kernel.function} is the kernel of an operator with other arguments"
            )
    spaces = sorted({function.rpartition("::")[0] for function in declared})
    for space in spaces:
        lines += [f"namespace {space} {{", "using namespace ::et;             // Error, Result, ScalarType, Span"]
        lines.append("using namespace ::et::kernels;    // Tensor, Scalar, IntArrayRef")
        lines.append("using ::et::extension::KernelRuntimeContext;")
        lines.append("using ::et::extension::resize_tensor;")
        lines += [text for function, text in declared.items() if function.rpartition("::")[0] == space]
        lines.append(f"}}  // namespace {space}\n")
    return "\n".join(lines)


def _result(kernel: PublishedKernel) -> str:
    return "void" if kernel.schema.returns != ("Tensor",) else "Tensor&"


def register_source(kernels: list[PublishedKernel], library: str, namespace: str, priority: str, head: str) -> str:
    """<name>/register.cpp. Of equal priority the last is tried first: special kernels stand behind the general one."""
    demands, entries, variants = "", "", ""
    for index, kernel in enumerate(kernels):
        run = f"kRun<&{kernel.function}>"
        if kernel.specialisation is None:
            entries += f'    make_kernel<{run}>("{kernel.schema.name}", {priority}),\n'
            variants += '    "",\n'
            continue
        positions = {argument.name: i for i, argument in enumerate(kernel.schema.arguments)}
        rows = ", ".join(
            f"{{{positions[name]}, MemoryOrder::{_ORDERS[order]}, {dtype_mask(dtypes):#x}u}}"
            for name, dtypes, order in kernel.specialisation.demands
        )
        demands += f"constexpr TensorDemand kDemands{index}[] = {{{rows}}};  // {kernel.specialisation.text}\n"
        entries += f'    make_specialised_kernel<{run}, kDemands{index}>("{kernel.schema.name}", {priority}),\n'
        variants += f'    "{kernel.specialisation.text}",\n'
    return _REGISTER.format(
        head=head, library=library, namespace=namespace, demands=demands, entries=entries, variants=variants
    )


_ORDERS = dict(zip(("", *MEMORY_ORDERS), ("kAny", "kContiguous", "kChannelsLast"), strict=True))
