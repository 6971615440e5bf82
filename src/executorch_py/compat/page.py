"""The page on moving over, written from the table.

python -m executorch_py.compat.page > docs/how-to/migrate.md
"""

from __future__ import annotations

from executorch_py.compat.published import MODULES, NOT_HERE, names_of

_HEAD = """# Moving over from the published package

Change the root of the imports, and nothing else:

```diff
-from executorch.exir import to_edge
+from executorch_py.exir import to_edge
```

Or leave the source as it is, where the published package is not installed:

```python
from executorch_py import compat

compat.install()  # import executorch now gives executorch_py; refused where the published package is installed
```

`compat/published.py` is the table behind this page, the modules and the stubs that type checkers see. A test holds it
against version 1.5.1 of the published package. What is not here raises an ImportError that gives the reason.

## What differs

- **Operators of Edge** are torch's own: `node.target` is `torch.ops.aten.add.Tensor`, and so is
  `exir_ops.edge.aten.add.Tensor`. There is no `target._op` to unwrap.
- **Dtypes of operators**: arguments of an operator's schema are torch's own and have no `allowed_types`, and schemas no
  `dtype_constraint`. What a kernel takes stands in [operators](../reference/operators.md).
- **Whole operators**: Edge keeps `linear`, attention and some others whole. `EdgeCompileConfig(decompose_ops=…)` takes
  them apart.
- **Delegation to a backend whose compiler is C++**: nodes stay in the graph, with a tag, until `to_executorch`.
- **Compiled programs**: `executorch_program` is the manager itself. `dump()` and `print_program` show the program, and
  `devtools.memory_trace.planned_graph` gives kernels and places as a graph.
- **Memory planners** see a method after all passes of the compiler. Views share the spec of what they look at.
- **External constants**: a rule takes a node, as there, or a name and a tensor.
- **Results** own their memory, whatever `clone_outputs` says.
- **Names of buffers** that a method writes are always in the file, whatever `emit_mutable_buffer_names` says; there
  they are not by default.
- **Positional arguments**: `ExecutorchBackendConfig` and `EdgeCompileConfig` begin with the published fields in their
  order; ours follow.

## Renamed or in another place

Every name below can be imported under its published path. The second column says where it is at home.

| published module | names and home |
|---|---|
"""

_NOT_HERE = """
## Not here

A module that also stands in the table above has the names listed there. Its row here is about its other names.

| published | why, and what to take |
|---|---|
"""


def page() -> str:
    """The text of the page."""
    rows = []
    for path in sorted(MODULES):
        if not MODULES[path]:
            continue
        homes: dict[str, list[str]] = {}
        for name, (module, other) in names_of(path).items():
            homes.setdefault(module, []).append(name if name == other else f"{name} (`{other}`)")
        places = "; ".join(f"`{module}`: {_listed(names)}" for module, names in homes.items())
        rows.append(f"| `{path}` | {places} |\n")
    missing = [f"| `{path}` | {reason} |\n" for path, reason in sorted(NOT_HERE.items())]
    return _HEAD + "".join(rows) + _NOT_HERE + "".join(missing)


def _listed(names: list[str]) -> str:
    return "all of it" if len(names) > 30 else ", ".join(names)


if __name__ == "__main__":
    print(page(), end="")
