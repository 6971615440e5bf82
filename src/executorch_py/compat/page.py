"""The page on moving over, written from the table.

    python -m executorch_py.compat.page > docs/migration.md
"""

from __future__ import annotations

from executorch_py.compat.published import MODULES, NOT_HERE, names_of

_HEAD = """# Moving over from the published package

Change the root of the imports, and nothing else:

```python
from executorch.exir import to_edge  # before
from executorch_py.exir import to_edge  # after
```

Or leave the source as it is, where the published package is not installed:

```python
from executorch_py import compat

compat.install()  # import executorch now gives executorch_py; refused where the published package is installed
```

`compat/published.py` is the table behind this page, behind the modules and behind the stubs that type checkers see. A test holds it
against version 1.5.1 of the published package. What is not here raises an ImportError that gives the reason.

## What differs

| published | here |
|---|---|
| `node.target` of Edge is an EdgeOpOverload, `target._op` is torch's operator | `target` is torch's operator itself; `exir_ops.edge.aten.add.Tensor` compares equal with it |
| Edge takes `linear` apart, unless a partitioner wants it whole | Edge keeps `linear`, attention and some others whole (`EdgeCompileConfig(decompose_ops=…)` takes them apart) |
| tags of XnnpackPartitioner become calls in `to_backend` | they stay tags until `to_executorch`, because the delegate's compiler is C++ |
| `ExecutorchProgramManager.executorch_program` has the file's tables | it is the manager itself; `dump()` and `print_program` show the compiled program |
| `exported_program()` of a compiled program has kernels and places | it is the Edge program; `devtools.memory_trace.planned_graph` has kernels and places |
| a `MemoryPlanningPass` sees the graph after out variants | the same, after all passes of the compiler: some nodes are merged, and views share their base's spec |
| `external_constants=fn(node)` | works; `fn(name, tensor)` as well |
| `Module.forward` of portable_lib gives tensors that may share memory (`clone_outputs=False`) | results own their memory always |

## Renamed or in another place

Every name below can be imported under its published path. The second column says where it is at home.

| published module | names and home |
|---|---|
"""

_NOT_HERE = """
## Not here

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
