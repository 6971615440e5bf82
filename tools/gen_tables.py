#!/usr/bin/env python3
"""Makes everything that follows from the operator table, at configure time, into the build tree.

    gen_tables.py --ops ops.yaml --published published_ops.txt --out build/generated [--select ops.txt …]
                  [--require model.pte …] [--other my_ops::* …]

Written under --out (a file is touched only when its content changes):
    ops/op_table.inc                      the compiler's table (ops/op_table.cpp)
    ops/names.h, ops/arguments.h, ir/op_views.h   operators, places of arguments and nodes by name (codegen/op_views.py)
                                          and, from kernels/prim/prim_table.inc, names of the runtime's own operators
    python/_operator_rows.py              the facts that Python reads (executorch_py/operator_facts.py)
    python/_element_types.py              the element types (executorch_py/element_types.py), from base/dtype.def
    kernels/<library>/<op_file>.h         declarations of the kernels of that file, included by it: a kernel whose
                                          parameters differ from its schema does not compile
    ops/signatures/<library>/<op_file>.h  names and letters of those kernels, for faster ones of the same operators
    kernels/<library>/register_table.inc  the kernel table (kernels/<library>/register.cpp)
    kernels/<library>/sources.cmake       the sources to compile, with the element types each is built for

<library> is the folder that an operator's `kernel` names ("quantized/op_linear.cpp"), or portable.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
from executorch_py.codegen.ops_yaml import TableError, read_table
from executorch_py.codegen.select_ops import read_selections, require_selected
from executorch_py.codegen.tables import primitive_rows, write_tables

#: The runtime's own operators.
PRIMITIVES = Path(__file__).resolve().parents[1] / "src/cpp/kernels/prim/prim_table.inc"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ops", type=Path, required=True, help="the operator table")
    parser.add_argument(
        "--published", type=Path, required=True, help="kernel names of the official runtime, one a line"
    )
    parser.add_argument(
        "--select", type=Path, nargs="+", default=[], help="keep only the kernels these lists, yaml and .pte files name"
    )
    parser.add_argument("--require", type=Path, nargs="+", default=[], help="programs that must find all they call")
    parser.add_argument("--other", nargs="+", default=[], help="kernels that another library has; may have *")
    parser.add_argument("--out", type=Path, required=True, help="root of the generated files")
    arguments = parser.parse_args()
    try:
        published = set(arguments.published.read_text(encoding="utf-8").split())
        ops = read_table(arguments.ops)
        selection = read_selections(arguments.select, ops, arguments.other)
        require_selected(selection, arguments.require, ops, arguments.other)
        write_tables(ops, published, primitive_rows(PRIMITIVES), selection, arguments.out)
    except (TableError, OSError) as error:
        print(f"gen_tables.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
