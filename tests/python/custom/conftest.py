"""The library of kernels that tests/cpp/plugin builds, and the operators that it has kernels for."""

from pathlib import Path

import pytest

import executorch_py as et
from executorch_py import _core

BUILD = Path(_core.__file__).parents[2]


@pytest.fixture(scope="session")
def custom_ops() -> Path:
    """The plug-in, loaded."""
    torch = pytest.importorskip("torch")
    path = BUILD / "bin/libcustom_ops.so"
    if not path.exists():
        pytest.skip("build the target custom_ops_plugin")
    assert et.load_kernel_library(path) == "custom_ops"
    assert et.load_kernel_library(path) == "custom_ops", "a second time is nothing"
    define(torch)
    return path


def define(torch) -> None:
    """Each operator once: some by custom_op, some by define and impl."""
    if hasattr(torch.ops.test_ops, "scale"):
        return
    Tensor = torch.Tensor

    @torch.library.custom_op("test_ops::add_", mutates_args=("x",))
    def add_(x: Tensor, y: Tensor, by: float = 1.0) -> None:
        x.add_(y, alpha=by)

    @torch.library.custom_op("test_ops::accumulate", mutates_args=("total",))
    def accumulate(total: Tensor, x: Tensor) -> Tensor:
        total.add_(x)
        return 2 * total

    @torch.library.register_fake("test_ops::accumulate")
    def _(total, x):
        return torch.empty_like(total)

    @torch.library.custom_op("test_ops::swap_", mutates_args=("first", "second"))
    def swap_(first: Tensor, second: Tensor) -> None:
        old = first.clone()
        first.copy_(second)
        second.copy_(old)

    @torch.library.custom_op("test_ops::positive", mutates_args=())
    def positive(x: Tensor) -> Tensor:
        return x[x > 0]

    @torch.library.register_fake("test_ops::positive")
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    library = torch.library.Library("test_ops", "FRAGMENT")
    define.library = library  # it goes with its definitions
    library.define(
        "everything(Tensor x, Tensor? y, int i, float f, bool b, Scalar s, str t, int[] l, float[] fs, bool[] bs, "
        "Tensor[] xs, "
        "Tensor?[] ys, ScalarType? dtype=None, int? oi=None, float? of=None, bool? ob=None, Scalar? os=None, str? "
        "ot=None, int[]? ol=None, float[]? ofs=None) -> (Tensor, Tensor)"
    )
    library.define("scale(Tensor x, float by) -> Tensor")
    library.define("halve(Tensor x) -> Tensor")
    library.define("halve.into(Tensor x, *, Tensor(a!) half) -> Tensor(a!)")
    library.define("wrong(Tensor x, float by) -> Tensor")
    library.define("nowhere(Tensor x, int[] sizes, *, bool? flag=None) -> (Tensor, Tensor)")

    def everything(x, y, i, f, b, s, t, ls, fs, bs, xs, ys, dtype=None, oi=None, of=None, ob=None, os=None, ot=None,
                   ol=None,
                   ofs=None):  # fmt: skip
        total = i + f + b + s + len(t) + sum(ls) + sum(fs) + 10 * sum(bs)
        total = total + sum(v.flatten()[0] for v in xs) + sum(100 if v is None else v.flatten()[0] for v in ys)
        code = {None: -1, torch.float32: 6, torch.int64: 4}[dtype]
        given = code + (oi or 0) + (of or 0) + bool(ob) + (os or 0) + len(ot or "") + sum(ol or ()) + sum(ofs or ())
        own = x if y is None else x + y
        return own + total, own + given

    library.impl("everything", everything, "CompositeExplicitAutograd")
    library.impl("scale", lambda x, by: (x * by).to(x.dtype), "CompositeExplicitAutograd")
    library.impl("halve", lambda x: x / 2, "CompositeExplicitAutograd")
    library.impl("wrong", lambda x, by: x * by, "CompositeExplicitAutograd")
    library.impl("nowhere", lambda x, sizes, *, flag=None: (x + 1, x + 2), "CompositeExplicitAutograd")
