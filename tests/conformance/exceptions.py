"""Cases that are known to fail, each with its reason. An entry whose case passes is an error: delete it then."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Expected:
    """A family of cases that fails.

    Attributes:
        pattern: Of case keys, with shell wildcards: "op/linalg.eig/*".
        reason: Why, and why that is right for now.
        status: How its cases end (a value of `Status`). One that ends otherwise, in a crash, say, is no expected failure.
    """

    pattern: str
    reason: str
    status: str = "refused"


EXPECTED: tuple[Expected, ...] = (
    Expected("op/to_sparse/*", "sparse tensors have no form in the file; refused when the program is lowered"),
    Expected(
        "op/sparse.sampled_addmm/*", "sparse tensors have no form in the file; refused when the program is lowered"
    ),
    Expected("op/sparse.mm.reduce/*", "sparse tensors have no form in the file; refused when the program is lowered"),
    Expected(
        "op/chalf/*", "complex numbers of two 16-bit floats are in no kernel; refused when the program is compiled"
    ),
    Expected("op/complex/float16/*", "complex numbers of two 16-bit floats are in no kernel; refused at compile time"),
    Expected(
        "op/view_as_complex/float16/*", "complex numbers of two 16-bit floats are in no kernel; refused at compile time"
    ),
    Expected(
        "op/special.polygamma.special_polygamma_n_0/int8/0",
        "at poles (negative integers) rounding alone decides which large number comes out",
        "wrong",
    ),
    Expected(
        "op/polygamma.*/int8/0",
        "at poles (negative integers) rounding alone decides which large number comes out",
        "wrong",
    ),
    Expected(
        "op/special.polygamma.special_polygamma_n_0/int16/0",
        "at poles (negative integers) rounding alone decides which large number comes out",
        "wrong",
    ),
    Expected(
        "op/polygamma.*/int16/0",
        "at poles (negative integers) rounding alone decides which large number comes out",
        "wrong",
    ),
    Expected(
        "op/special.bessel_?1/float64/0",
        "PyTorch's own are off by up to 9e-7 in double precision (special.j1 and y1 of SciPy agree with ours)",
        "wrong",
    ),
    Expected(
        "op/as_strided.partial_views/float32/2",
        "the strides address memory around the input, of which a program gets the elements only; refused when it is lowered",
    ),
)


def expected_failure(key: str) -> Expected | None:
    """The entry that a case belongs to, however it ended."""
    return next((entry for entry in EXPECTED if fnmatchcase(key, entry.pattern)), None)
