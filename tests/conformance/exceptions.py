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
        status: How its cases end (a value of `Status`). One that ends otherwise, in a crash, say, is no expected
            failure.
    """

    pattern: str
    reason: str
    status: str = "refused"


EXPECTED: tuple[Expected, ...] = (
    Expected("special/to_sparse/*", "sparse tensors have no form in the file; refused when the program is lowered"),
    Expected("special/sparse.*/*", "sparse tensors have no form in the file; refused when the program is lowered"),
    Expected(
        "special/chalf/*", "complex numbers of two 16-bit floats are in no kernel; refused when the program is compiled"
    ),
    Expected(
        "special/complex/float16/*", "complex numbers of two 16-bit floats are in no kernel; refused at compile time"
    ),
    Expected(
        "special/view_as_complex/float16/*",
        "complex numbers of two 16-bit floats are in no kernel; refused at compile time",
    ),
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
        "the strides address memory around the input, of which a program gets the elements only; refused when it is "
        "lowered",
    ),
    Expected(
        "special/masked_select/float32/2",
        "torch.export asserts that the result is no longer than the input, which the mask broadcasts to more",
        "failed",
    ),
)


@dataclass(frozen=True)
class Undefined:
    """Special values for which an operator has no one answer: they are run, and not compared.

    Attributes:
        names: Of database entries, with shell wildcards.
        variants: Kinds of special values (special.py).
        reason: What decides in eager, or why our answer is another one.
    """

    names: tuple[str, ...]
    variants: tuple[str, ...]
    reason: str


_NOT_FINITE = ("nan", "infinite", "mixed")
UNDEFINED: tuple[Undefined, ...] = (
    Undefined(
        ("linalg.*", "lu", "lu_solve", "svd*", "pinverse", "cholesky*", "triangular_solve", "geqrf", "ormqr", "logdet",
         "norm.nuc", "pca_lowrank", "qr", "symeig", "matrix_exp", "*slogdet*", "linalg.det*"),
        (*_NOT_FINITE, "large", "zeros"),
        "LAPACK's answer for a matrix that is not finite, or not of full rank, is what its blocks leave (eigvals "
        "crashes in MKL)",
    ),
    Undefined(("fft.*", "stft", "istft"), _NOT_FINITE,
              "the algorithm decides which parts of a transform a NaN reaches"),
    Undefined(
        ("var_mean*", "std_mean*", "*native_*norm*", "_batch_norm_with_update"),
        ("infinite", "mixed"),
        "the mean beside an infinity is NaN or infinite in eager as the place of the infinity has it; ours is infinite",
    ),
    Undefined(
        ("*interpolate*bilinear*", "*upsample_bilinear*"), ("infinite", "mixed"),
        "XNNPACK multiplies differences: infinity becomes NaN"
    ),
    Undefined(
        ("special.bessel_*", "special.airy_ai"), ("infinite", "mixed"), "the limit is 0, eager gives NaN"
    ),
    Undefined(("mode",), _NOT_FINITE, "eager sorts NaN by an order that is none"),
    Undefined(
        ("nn.functional.bilinear", "nn.Bilinear"),
        ("infinite", "mixed"),
        "the order of the three factors decides between infinity and NaN",
    ),
    Undefined(
        ("nn.MultiMarginLoss", "nn.MultiLabelMarginLoss", "*multi*margin_loss"),
        _NOT_FINITE,
        "eager's kernel leaves a NaN out of its sum, the decomposition that torch.export makes keeps it",
    ),
    Undefined(
        ("*scaled_dot_product_attention*",),
        _NOT_FINITE,
        "keys that a mask hides are left out; eager multiplies some of them by 0",
    ),
    Undefined(("*conv*", "*Conv*"), ("zeros",), "libraries differ in flushing subnormal products to zero"),
    Undefined(
        ("maximum", "minimum", "max.binary", "min.binary", "clamp_max", "clamp_min"), ("zeros",),
        "which of two zeros eager gives depends on the instructions that it was compiled for (on AVX2 the first)",
    ),
    Undefined(
        ("nn.functional.softshrink", "nn.Softshrink"), (*_NOT_FINITE, "zeros", "large", "largest"),
        "in eager the sign of a zero is another one within vectors than behind them",
    ),
    Undefined(
        ("polygamma*", "special.polygamma*", "special.zeta"), ("infinite", "large", "largest", "mixed"),
        "the limit is 0, eager gives NaN",
    ),
    Undefined(("igamma", "igammac"), ("mixed",), "eager gives the limit at infinity where the other argument is NaN"),
    Undefined(
        ("special.*chebyshev_polynomial_*", "special.legendre_polynomial_p"), ("nan", "mixed"),
        "eager makes numbers of an argument or a degree that is NaN",
    ),
    Undefined(("special.laguerre_polynomial_l",), ("large",), "eager counts up to the degree, 1.8e17"),
    Undefined(
        ("special.bessel_*", "special.airy_ai"), ("nan", "zeros", "large", "largest"),
        "PyTorch's own are off by up to 9e-7 in double precision, as in the database's samples",
    ),
    Undefined(
        ("isin",), ("mixed",), "torch.export's decomposition searches among sorted numbers, where NaN has no place"
    ),
)  # fmt: skip


def undefined(name: str, variant: str) -> bool:
    """Whether an operator's answer is not compared for these special values."""
    return any(variant in u.variants and any(fnmatchcase(name, n) for n in u.names) for u in UNDEFINED)


def expected_failure(key: str) -> Expected | None:
    """The entry that a case belongs to, however it ended."""
    return next((entry for entry in EXPECTED if fnmatchcase(key, entry.pattern)), None)
