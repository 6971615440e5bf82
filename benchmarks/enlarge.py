"""Samples of PyTorch's operator database, enlarged to about a million elements.

The database's samples are a few elements each; their shapes say what belongs together. `enlarge` multiplies every size
that occurs in a sample by the same factor wherever it occurs, so that what matched before matches afterwards. It fills
the larger tensors with values between those of the sample, which keeps them in the operator's domain. Where sizes must
not grow alike (the kernel of a convolution, a matrix to be inverted) there is an input by hand (`_own`).

    for case in cases("float32"):
        case.name, case.function(*case.inputs)
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from .matrices import matrices, transforms

ELEMENTS = 1_000_000


@dataclass(frozen=True)
class Case:
    """One operator with its inputs: `function` is what a program is made of, `eager` what is measured beside it.

    A program's outputs have memory of their own: where eager gives a view of an input, `eager` copies it.
    """

    name: str
    function: Callable[..., Any]
    eager: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]


def _fill(sample: torch.Tensor, shape: list[int], generator: torch.Generator) -> torch.Tensor:
    """A tensor of `shape` with values like those of `sample`."""
    values = sample.detach().reshape(-1)
    if values.numel() == 0:
        return torch.empty(shape, dtype=sample.dtype)
    count = 1
    for size in shape:
        count *= size
    chosen = torch.randint(0, values.numel(), (2, count), generator=generator)
    if not sample.dtype.is_floating_point or not bool(values.isfinite().all()):
        return values[chosen[0]].reshape(shape)
    share = torch.rand(count, generator=generator)
    low, high = values[chosen[0]].double(), values[chosen[1]].double()
    return (low + (high - low) * share).to(sample.dtype).reshape(shape)


def _tensors(leaves: list[Any]) -> list[torch.Tensor]:
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _grown(size: int, factor: float) -> int:
    return size if size <= 1 else max(2, round(size * factor))


def _factor(tensors: list[torch.Tensor]) -> float:
    """The factor that makes the largest tensor about ELEMENTS large."""

    def largest(factor: float) -> int:
        counts = []
        for tensor in tensors:
            count = 1
            for size in tensor.shape:
                count *= _grown(size, factor)
            counts.append(count)
        return max(counts)

    low, high = 1.0, float(ELEMENTS)
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if largest(middle) < ELEMENTS else (low, middle)
    return low


def enlarge(leaves: list[Any], grow_numbers: bool) -> list[Any]:
    """The arguments of a sample with larger tensors; with `grow_numbers`, integers that equal a size grow with it."""
    tensors = _tensors(leaves)
    factor = _factor(tensors)
    generator = torch.Generator().manual_seed(0)
    sizes = {size for tensor in tensors for size in tensor.shape}
    result: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            result.append(_fill(leaf, [_grown(size, factor) for size in leaf.shape], generator))
        elif grow_numbers and isinstance(leaf, int) and not isinstance(leaf, bool) and leaf in sizes:
            result.append(_grown(leaf, factor))
        else:
            result.append(leaf)
    return result


def _own(dtype: torch.dtype) -> dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]:
    """Operators whose sizes do not grow alike, by the database's name."""
    torch.manual_seed(0)

    def tensor(*shape: int) -> torch.Tensor:
        return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(-9, 9, shape).to(dtype)

    line, image, volume = tensor(4, 64, 4096), tensor(1, 64, 128, 128), tensor(1, 16, 40, 40, 40)
    rows = tensor(1000, 1000)
    planes = {1: line, 2: image, 3: volume}
    cases: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {}
    for n, x in planes.items():
        c = x.shape[1]

        def of(name: str, n: int = n, **options: Any) -> Callable[..., Any]:
            return functools.partial(getattr(F, f"{name}{n}d"), **options)

        whole, half = tensor(c, c, *(3,) * n), tensor(c, c // 2, *(2,) * n)
        windows = {"kernel_size": 3, "stride": 2, "padding": 1}
        cases |= {
            f"nn.functional.conv{n}d": (of("conv", padding=1), (x, whole, tensor(c))),
            f"nn.functional.conv{n}d.dilated": (of("conv", dilation=2), (x, whole)),
            f"nn.functional.conv{n}d.grouped": (of("conv", groups=4), (x, tensor(c, c // 4, *(3,) * n))),
            f"nn.functional.conv{n}d.depthwise": (of("conv", groups=c), (x, tensor(c, 1, *(3,) * n))),
            f"nn.functional.conv_transpose{n}d": (of("conv_transpose", stride=2), (x, half)),
            f"nn.functional.max_pool{n}d": (of("max_pool", **windows), (x,)),
            f"nn.functional.max_pool{n}d.indices": (of("max_pool", return_indices=True, **windows), (x,)),
            f"nn.functional.avg_pool{n}d": (of("avg_pool", **windows), (x,)),
            f"nn.functional.adaptive_avg_pool{n}d": (of("adaptive_avg_pool", output_size=5), (x,)),
            f"nn.functional.adaptive_max_pool{n}d": (of("adaptive_max_pool", output_size=5), (x,)),
        }
    for mode in ("nearest", "bilinear", "bicubic"):
        cases[f"nn.functional.interpolate.{mode}"] = (
            lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode), (tensor(1, 16, 128, 128),))  # fmt: skip
    cases |= {
        "add": (torch.add, (rows, tensor(1000, 1000))),
        "mul": (torch.mul, (rows, tensor(1000, 1000))),
        "unbind": (torch.unbind, (tensor(32, 32, 1000),)),
        "nn.functional.interpolate.linear": (lambda x: F.interpolate(x, scale_factor=2, mode="linear"), (line,)),
        "nn.functional.interpolate.trilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"),
                                                (volume,)),
        "nn.functional.grid_sample": (
            lambda x, g: F.grid_sample(x, g, align_corners=False), (image, tensor(1, 128, 128, 2).clamp(-1, 1))),
        "nn.functional.pixel_shuffle": (lambda x: F.pixel_shuffle(x, 2), (image,)),
        "nn.functional.pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), (image,)),
        "nn.functional.unfold": (lambda x: F.unfold(x, 3), (tensor(1, 8, 128, 128),)),
        "nn.functional.fold": (lambda x: F.fold(x, (128, 128), 2, stride=2), (tensor(1, 256, 4096),)),
        "nn.functional.layer_norm": (lambda x, w, b: F.layer_norm(x, (1000,), w, b),
                                     (rows, tensor(1000), tensor(1000))),
        "nn.functional.group_norm": (lambda x, w, b: F.group_norm(x, 8, w, b), (image, tensor(64), tensor(64))),
        "nn.functional.batch_norm": (
            lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b),
            (image, tensor(64), tensor(64).float().abs().to(dtype), tensor(64), tensor(64))),
        "native_batch_norm.training": (
            lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), (image, tensor(64), tensor(64))),
        "nn.functional.instance_norm": (lambda x: F.instance_norm(x), (image,)),
        "nn.functional.local_response_norm": (lambda x: F.local_response_norm(x, 5), (image,)),
        "nn.functional.rms_norm": (lambda x, w: F.rms_norm(x, (1000,), w), (tensor(1000, 1000), tensor(1000))),
        "nn.functional.scaled_dot_product_attention": (F.scaled_dot_product_attention, (tensor(1, 16, 512, 64),) * 3),
        "nn.functional.multi_head_attention_forward": (
            lambda x, w, b, o, ob: F.multi_head_attention_forward(
                x, x, x, 256, 8, w, b, None, None, False, 0.0, o, ob, training=False)[0],
            (tensor(128, 4, 256), tensor(768, 256), tensor(768), tensor(256, 256), tensor(256))),
        "nn.functional.embedding": (lambda i, w: F.embedding(i, w),
                                    (torch.randint(0, 10000, (4, 1024)), tensor(10000, 256))),
        "nn.functional.embedding_bag": (
            lambda i, w: F.embedding_bag(i, w), (torch.randint(0, 10000, (256, 16)), tensor(10000, 256))),
        "nn.functional.linear": (F.linear, (tensor(512, 1024), tensor(512, 1024), tensor(512))),
        "nn.functional.bilinear": (F.bilinear, (tensor(512, 64), tensor(512, 64), tensor(32, 64, 64), tensor(32))),
        "matmul": (torch.matmul, (tensor(512, 512), tensor(512, 512))),
        "mm": (torch.mm, (tensor(512, 512), tensor(512, 512))),
        "bmm": (torch.bmm, (tensor(16, 256, 256), tensor(16, 256, 256))),
        "bmm.transposed": (lambda a, b: torch.bmm(a.mT, b.mT), (tensor(16, 256, 256), tensor(16, 256, 256))),
        "addmm": (torch.addmm, (tensor(512, 512), tensor(512, 512), tensor(512, 512))),
        "baddbmm": (torch.baddbmm, (tensor(16, 256, 256), tensor(16, 256, 256), tensor(16, 256, 256))),
        "addbmm": (torch.addbmm, (tensor(256, 256), tensor(16, 256, 256), tensor(16, 256, 256))),
        "cdist": (torch.cdist, (tensor(512, 64), tensor(512, 64))),
        "histc": (lambda x: torch.histc(x, 100), (tensor(ELEMENTS),)),
        "bincount": (lambda x: torch.bincount(x, minlength=256), (torch.randint(0, 256, (ELEMENTS,)),)),
        "bucketize": (torch.bucketize, (tensor(ELEMENTS), torch.linspace(-3, 3, 64).to(dtype).unique())),
        "searchsorted": (lambda s, x: torch.searchsorted(s, x),
                         (torch.linspace(-3, 3, 64).to(dtype).unique(), tensor(ELEMENTS))),
        "sort.rows": (lambda x: torch.sort(x, -1), (tensor(1000, 1000),)),
        "sort.long": (lambda x: torch.sort(x), (tensor(ELEMENTS),)),
        "topk.rows": (lambda x: torch.topk(x, 10), (tensor(1000, 1000),)),
        "topk.long": (lambda x: torch.topk(x, 100), (tensor(ELEMENTS),)),
        "kthvalue": (lambda x: torch.kthvalue(x, 50), (tensor(1000, 1000),)),
        "median": (torch.median, (tensor(ELEMENTS),)),
        "median.rows": (lambda x: torch.median(x, -1), (tensor(1000, 1000),)),
        "transpose.contiguous": (lambda x: x.t().contiguous(), (tensor(1000, 1000),)),
        "permute.contiguous": (lambda x: x.permute(2, 0, 1).contiguous(), (tensor(100, 100, 100),)),
        "index.pairs": (
            lambda x, i, j: x[i, j], (rows, torch.randint(0, 1000, (ELEMENTS,)), torch.randint(0, 1000, (ELEMENTS,)))),
        "index.rows": (lambda x, i: x[i], (tensor(1000, 1000), torch.randint(0, 1000, (1000,)))),
        "cumsum.columns": (lambda x: x.cumsum(0), (tensor(1000, 1000),)),
        "cumsum.rows": (lambda x: x.cumsum(1), (tensor(1000, 1000),)),
        "broadcast_tensors": (torch.broadcast_tensors, (rows, tensor(1000))),
        "cross": (lambda a, b: torch.cross(a, b, dim=-1), (tensor(ELEMENTS, 3), tensor(ELEMENTS, 3))),
        "diag_embed": (torch.diag_embed, (tensor(100, 100),)),
        "equal": (lambda a, b: (a == b).all(), (rows, rows.clone())),
        "kron": (torch.kron, (tensor(32, 32), tensor(32, 32))),
        "outer": (torch.outer, (tensor(1000), tensor(1000))),
        "split.list_args": (lambda x: torch.split(x, [100, 600, 300], dim=1), (rows,)),
        "split_with_sizes": (lambda x: torch.split_with_sizes(x, [100, 600, 300], dim=1), (rows,)),
        "split_with_sizes_copy": (lambda x: torch.split_with_sizes_copy(x, [100, 600, 300], dim=1), (rows,)),
        "unbind_copy": (torch.unbind_copy, (tensor(32, 32, 1000),)),
    }  # fmt: skip
    if dtype.is_floating_point:
        for n, x in {2: image, 3: volume}.items():
            pooled, places = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
            unpool = getattr(F, f"max_unpool{n}d")
            cases[f"nn.functional.max_unpool{n}d"] = (lambda x, i, unpool=unpool: unpool(x, i, 2), (pooled, places))
        cases |= {
            "grid_sampler_2d": (
                lambda x, g: torch.grid_sampler_2d(x, g, 0, 0, False), (image, tensor(1, 128, 128, 2).clamp(-1, 1))),
            "segment_reduce.lengths": (
                lambda x, n: torch.segment_reduce(x, "sum", lengths=n, unsafe=True), (rows, torch.full((100,), 10))),
        }  # fmt: skip
    for name, of in {"all": None, "rows": -1, "columns": 0}.items():
        for function in ("sum", "mean", "prod", "amax", "argmax", "var", "std", "logsumexp", "any", "norm"):
            cases[f"{function}.{name}"] = (_reduction(function, of), (tensor(1000, 1000),))
    if dtype in (torch.float32, torch.float64):
        cases |= matrices(dtype) | transforms(dtype)
    return cases


def _reduction(name: str, dim: int | None) -> Callable[[torch.Tensor], torch.Tensor]:
    function = getattr(torch, name)
    if dim is not None:
        return lambda x: function(x, dim=dim)
    return (lambda x: function(x, dim=(0, 1))) if name in ("amax", "logsumexp") else function


def _case(name: str, function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Case | None:
    """The case, if eager takes it and gives at most 64 tensors, no more than 16 times as large as the aim together."""
    try:
        with torch.no_grad():
            result = _tensors(pytree.tree_leaves(function(*inputs)))
    except Exception:  # eager has no kernel for this dtype, or the sample does not grow this way
        return None
    if any(t.layout != torch.strided for t in result):
        return None
    if not 0 < len(result) <= 64 or sum(t.numel() for t in result) > 16 * ELEMENTS:
        return None
    pointers = {t.untyped_storage().data_ptr() for t in inputs}
    if not any(t.untyped_storage().data_ptr() in pointers for t in result):
        return Case(name, function, function, inputs)

    def eager(*tensors: torch.Tensor) -> Any:
        copy = lambda t: t.clone(memory_format=torch.contiguous_format)  # noqa: E731
        return pytree.tree_map_only(torch.Tensor, copy, function(*tensors))

    return Case(name, function, eager, inputs)


# Not measured, and why; the name begins so.
_SKIPPED = {
    "empty": "no values to compute",
    "jiterator": "for GPUs",
    "new_empty": "no values to compute",
    "sparse.": "sparse tensors",
}


def _from_database(name: str, op: Any, dtype: torch.dtype) -> Case | None:
    """The first sample that eager still takes when it is large."""
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), 4):
        leaves, spec = pytree.tree_flatten((sample.input, tuple(sample.args), dict(sample.kwargs)))
        if not _tensors(leaves) or max(t.numel() for t in _tensors(leaves)) == 0:
            continue
        for grow_numbers in (False, True):
            large = enlarge(leaves, grow_numbers)
            places = [i for i, leaf in enumerate(large) if isinstance(leaf, torch.Tensor)]

            def function(*inputs: torch.Tensor, large=large, places=places, spec=spec) -> Any:
                merged = list(large)
                for place, tensor in zip(places, inputs):
                    merged[place] = tensor
                first, args, kwargs = pytree.tree_unflatten(merged, spec)
                return op.op(first, *args, **kwargs)

            case = _case(name, function, tuple(large[i] for i in places))
            if case is not None:
                return case
    return None


def _reason(op: Any, dtype: torch.dtype) -> str:
    """Why no sample of `op` becomes a case."""
    samples = itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), 4)
    if not any(_tensors(pytree.tree_leaves((s.input, s.args, s.kwargs))) for s in samples):
        return "no tensor comes in"
    return "eager refuses its samples when they are enlarged, or gives no tensor"


def cases(
    dtype_name: str, wanted: Callable[[str], bool] = lambda name: True, left_out: list[str] | None = None
) -> Iterator[Case]:
    """The operators of the database that take `dtype_name`, and those written by hand, whose name `wanted` accepts.

    `left_out` gets those without a case, with the reason.
    """
    dtype = getattr(torch, dtype_name)
    missing = [] if left_out is None else left_out
    own = _own(dtype)
    for name, (function, inputs) in own.items():
        if not wanted(name):
            continue
        case = _case(name, function, inputs)
        if case is None:
            missing.append(f"{name}: eager refuses the inputs made by hand")
        else:
            yield case
    for op in op_db:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if own.keys() & {op.name, name} or not wanted(name) or not op.supports_dtype(dtype, "cpu"):
            continue
        reason = next((reason for start, reason in _SKIPPED.items() if op.name.startswith(start)), None)
        case = None if reason else _from_database(name, op, dtype)
        if case is None:
            missing.append(f"{name}: {reason or _reason(op, dtype)}")
        else:
            yield case
