"""What the kernel of an operator looks like in C++: its name in programs, its function, its parameters.

For: the generators of kernel tables, and messages that say what to write. One rule for all operators:

- a functional operator ``ns::f(...) -> Tensor`` has the kernel ``ns::f.out``: its arguments, then a ``Tensor& out`` for
  each
  result (``ns::f.Scalar`` has ``ns::f.Scalar_out``), or what an out variant that is given says;
- an operator that changes arguments, ``ns::f_(Tensor(a!) x, ...)``, has a kernel of its own name that does the same:
  its
  arguments, the changed ones as ``Tensor&``, then a ``Tensor& out`` for each result.

Example:
    >>> from executorch_py.codegen.ops_yaml import parse_schema
    >>> form = KernelForm.of(parse_schema("my::scale(Tensor x, float by=2.0) -> Tensor"))
    >>> form.name, form.function, form.signature
    ('my::scale.out', 'scale_out', 'Tdo')
    >>> form.declaration
    'Error scale_out(KernelContext& context, const Tensor& x, double by, Tensor& out);'
    >>> KernelForm.of(parse_schema("my::scale_(Tensor(a!) x, float by) -> ()")).declaration
    'Error scale_(KernelContext& context, Tensor& x, double by);'
"""

from __future__ import annotations

from dataclasses import dataclass

from .ops_yaml import Argument, Schema, TableError, kernel_function

# C++ parameter type of a signature letter, in the words of runtime/kernel_types.h.
_CPP_TYPES = {
    "T": "const Tensor&", "t": "const OptionalTensor&", "i": "int64_t", "I": "std::optional<int64_t>",
    "d": "double", "D": "std::optional<double>", "b": "bool", "B": "std::optional<bool>", "n": "const Scalar&",
    "N": "const std::optional<Scalar>&", "s": "std::string_view", "S": "std::optional<std::string_view>",
    "y": "ScalarType", "Y": "std::optional<ScalarType>", "l": "IntArrayRef", "L": "std::optional<IntArrayRef>",
    "f": "Span<const double>", "F": "std::optional<Span<const double>>", "m": "Span<const bool>",
    "v": "TensorList", "w": "OptionalTensorList",
}  # fmt: skip


#: Words of C++ that an argument of an operator may be called by, and that a parameter of a function may not.
CPP_KEYWORDS = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
    co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    """.split()  # noqa: SIM905
)


def declaration(schema: Schema) -> str:
    """The C++ declaration of the kernel whose parameters are those of ``schema``.

    A name that C++ or another parameter has already gets a ``_``: ``const Tensor& context_``.
    """
    parameters = ["KernelContext& context"]
    taken = {"context", *CPP_KEYWORDS}
    for a in schema.arguments:
        cpp = "Tensor&" if a.mutated and a.letter == "T" else _CPP_TYPES[a.letter]
        name = a.name
        while name in taken:
            name += "_"
        taken.add(name)
        parameters.append(f"{cpp} {name}")
    return f"Error {kernel_function(schema.name)}({', '.join(parameters)});"


def signature_letters(schema: Schema, in_place: int = 0) -> str:
    """The letters of runtime/unboxing.h; bit i of ``in_place``: an output may begin where argument i does."""
    written = ["o" if a.mutated and a.letter == "T" else a.letter for a in schema.arguments]
    return "".join({"T": "e", "t": "E"}.get(c, c) if in_place >> i & 1 else c for i, c in enumerate(written))


@dataclass(frozen=True)
class KernelForm:
    """How the kernel of one operator is called and written.

    Attributes:
        name: In programs and registries.
        schema: Its parameters, outputs last.
        changed: Bit i: parameter i is changed in place (make_in_place_kernel).
    """

    name: str
    schema: Schema
    changed: int = 0

    @property
    def function(self) -> str:
        """Name of the C++ function."""
        return kernel_function(self.name)

    @property
    def declaration(self) -> str:
        """Its C++ declaration."""
        return declaration(self.schema)

    @property
    def signature(self) -> str:
        """The letters of runtime/unboxing.h, as the registered kernel has them."""
        letters = ["o" if a.is_out and a.letter == "T" else a.letter for a in self.schema.arguments]
        return "".join(letters) + "o" * self.changed.bit_count()

    @staticmethod
    def of(schema: Schema, out: Schema | None = None) -> KernelForm:
        """The kernel of the operator ``schema``, whose out variant is ``out`` when it has one.

        Raises:
            TableError: No kernel can be written for such an operator; says why.
        """
        if out is not None:
            _require_same_arguments(schema, out)
            return KernelForm(out.name, out)
        changed = 0
        for index, argument in enumerate(schema.arguments):
            if argument.mutated and argument.letter != "T":
                raise TableError(
                    f"{schema.name} changes '{argument.name}', a {argument.type}; a kernel changes tensors only"
                )
            changed |= int(argument.mutated) << index
        for kind in schema.returns:
            if kind != "Tensor":
                raise TableError(f"{schema.name} returns a {kind}; a kernel's results are tensors")
        if changed and _returns_alias(schema):
            raise TableError(f"{schema.name} returns an argument that it changes; let it return nothing")
        if not changed and not schema.returns:
            raise TableError(f"{schema.name} neither returns nor changes anything")
        name = schema.name
        if not changed:
            name += "_out" if "." in name.split("::")[1] else ".out"
        outputs = ["out"] if len(schema.returns) == 1 else [f"out{i}" for i in range(len(schema.returns))]
        added = tuple(Argument(output, "Tensor", "T", None, True, True, True) for output in outputs)
        return KernelForm(name, Schema(schema.text, name, (*schema.arguments, *added), schema.returns), changed)


def _returns_alias(schema: Schema) -> bool:
    return "!" in schema.text.rpartition("->")[2]


def _require_same_arguments(schema: Schema, out: Schema) -> None:
    """A program passes the arguments of the functional operator, then the outputs."""
    given = [(a.name, a.letter) for a in out.arguments if not a.is_out]
    if given != [(a.name, a.letter) for a in schema.arguments] or not any(a.is_out for a in out.arguments):
        raise TableError(f"{out.name} must take the arguments of {schema.name} in their order, then its outputs")
