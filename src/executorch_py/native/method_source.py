"""The function of one method: its tensors, then one statement for each instruction.

Each value becomes one name: ``input0``, ``output0``, ``c12`` (a constant), ``s3`` (state), ``t17`` (what lies in the
arena), or ``v21``: a local variable, where the method replaces the value while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from executorch_py.codegen.ops_yaml import Argument, Op, kernel_function
from executorch_py.firmware.kernels import primitives

from .layout import Layout
from .literals import double_text, dtype_text, identifier, int_text, scalar_text, string_text
from .plan import Call, JumpFalse, Lists, Method, Move, Tensor

__all__ = ["MethodSource", "strides_of"]

#: A number of the value's own kind, boxed.
_BOXED = {bool: "EValue({})", int: "EValue(int64_t{{{}}})", float: "EValue({})"}
_COLUMNS = 120
_MOST_JUMPS_BACK = 10_000_000  # as MethodOptions::max_backward_jumps


def strides_of(tensor: Tensor) -> list[int]:
    """Elements from one index of each dimension to the next."""
    strides, step = [0] * len(tensor.sizes), 1
    for d in reversed(tensor.dim_order):
        strides[d] = step
        step *= max(tensor.sizes[d], 1)
    return strides


class MethodSource:
    """Writes a method; ``shapes`` are those that its tensors have, by their names."""

    def __init__(self, method: Method, layout: Layout, ops: Mapping[str, Op], shapes: dict[str, Tensor]) -> None:
        self._method = method
        self._layout = layout
        self._ops = ops
        self._shapes = shapes
        self._prims = {name: (row.split('"')[3], row.split("&")[1].rstrip("},")) for name, row in primitives().items()}
        self._given = self._given_numbers()
        self._numbers = self._replaced_numbers() | self._given
        self._views = method.views
        self._used: dict[int, None] = {}

    @property
    def function(self) -> str:
        """The name of its function."""
        return identifier(f"run_{self._method.name}")

    def text(self) -> str:
        """Its tensors and its function."""
        body = [*self._body()]
        if self._method.is_dynamic:  # their sizes are read
            ends = (*self._method.inputs, *self._method.outputs)
            self._used |= dict.fromkeys(i for i in ends if isinstance(self._method.values[i], Tensor))
        tensors = [self._tensor(i) for i in sorted(self._used)]
        return "\n".join([*tensors, "", f"Error {self.function}(KernelContext& context) {{", *body, "}", ""])

    def input_pointer(self, place: int) -> str:
        """Where an input is written; "" for what was fixed at export."""
        is_given = place in self._given or isinstance(self._method.values[place], Tensor)
        return self.pointer(place) if is_given else ""

    def pointer(self, place: int) -> str:
        """Where the elements of a value are, or the number it is: an expression for its address; "" for None."""
        value = self._method.values[place]
        if isinstance(value, Tensor):
            if place in self._views:
                return f"Tensor({self._name(place)}).const_data_ptr()"
            return f"{identifier(self._method.name)}_moved{place}" if place in self._method.moved else self._data(place)
        return f"&{self.number_name(place)}" if isinstance(value, (bool, int, float)) else ""

    def sizes(self, place: int) -> str:
        """Where the sizes of a tensor are; "" for what is none."""
        if not isinstance(self._method.values[place], Tensor):
            return ""
        if place in self._method.moved:
            return f"{self.pointer(place)}_sizes"
        return f"Tensor({self._name(place)}).sizes().data()"

    def resize(self, place: int) -> str:
        """The call that gives an input the sizes that ``sizes`` points at; "" for what is no tensor."""
        value = self._method.values[place]
        if not isinstance(value, Tensor):
            return ""
        position = self._method.inputs.index(place)
        bits = sum(1 << one.dim for one in self._method.relations if one.input == position and one.dim >= 0)
        if value.is_dynamic and not self._method.relations:
            bits = (1 << len(value.sizes)) - 1  # of a file that says nothing about single sizes
        return f"resize_input({self._name(place)}, sizes, {self._shape(value)}, {bits:#x})"

    def checks(self) -> Iterator[str]:
        """The lines that see whether the sizes of inputs agree."""
        terms, symbols = [], set()
        for one in self._method.relations:
            place = self._method.inputs[one.input]
            if one.dim < 0 and place not in self._given:
                continue  # a number that no instruction uses
            size = self.number_name(place) if one.dim < 0 else f"Tensor({self._name(place)}).size({one.dim})"
            numbers = ", ".join(map(int_text, (one.scale, one.offset, one.lower, one.upper)))
            terms.append(f"!agrees({size}, {numbers}, &symbol{one.symbol})")
            symbols.add(one.symbol)
        yield from (f"  int64_t symbol{symbol} = -1;" for symbol in sorted(symbols))
        if terms:
            yield "  if (" + " ||\n      ".join(terms) + ") {"
            yield '    return static_cast<int>(failed("sizes of inputs", Error::InvalidArgument));'
            yield "  }"

    def number_name(self, place: int) -> str:
        """The variable that holds an output that is a number."""
        return f"{identifier(self._method.name)}_number{place}"

    def statics(self) -> Iterator[str]:
        """Variables for inputs and outputs that are numbers, and for outputs that are other tensors' memory."""
        for place in dict.fromkeys([*sorted(self._given), *self._method.outputs]):
            value = self._method.values[place]
            if isinstance(value, Tensor) and place in self._method.moved:
                yield f"const void* {self.pointer(place)} = {self._data(place)};"
                if self._method.is_dynamic:
                    yield f"const int64_t* {self.sizes(place)} = nullptr;"
            elif isinstance(value, (bool, int, float)):
                kind = {bool: "bool", int: "int64_t", float: "double"}[type(value)]
                yield f"{kind} {self.number_name(place)} = {self._number_text(value)};"

    def _replaced_numbers(self) -> frozenset[int]:
        """Numbers that primitive operators compute or moves replace."""
        found = {i for i in self._method.moved if not isinstance(self._method.values[i], Tensor)}
        for step in self._method.steps:
            if isinstance(step, Call) and step.kernel in self._prims:
                found |= {i for i, letter in zip(step.args, self._prims[step.kernel][0], strict=False) if letter == "r"}
        return frozenset(found)

    def _given_numbers(self) -> frozenset[int]:
        """Inputs that are numbers and that some instruction uses: others were fixed at export."""
        method = self._method
        used = {i for step in method.steps if isinstance(step, Call) for i in step.args}
        used |= {step.condition for step in method.steps if isinstance(step, JumpFalse)}
        used |= {step.source for step in method.steps if isinstance(step, Move)}
        lists = [value for i in used if isinstance(value := method.values[i], Lists)]
        used |= {item for one in lists for item in one.items}
        return frozenset(i for i in method.inputs if i in used and isinstance(method.values[i], (bool, int, float)))

    def _number_text(self, value: float | bool) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        return int_text(value) if isinstance(value, int) else double_text(value)

    def _data(self, place: int) -> str:
        found = self._layout.places[self._method.name, place]
        return f"{identifier(found.array)} + {found.offset}"

    def _name(self, place: int) -> str:
        value, method = self._method.values[place], self._method
        self._used[place] = None
        if place in method.inputs:
            return f"{self._prefix}input{method.inputs.index(place)}"
        if place in method.outputs:
            return f"{self._prefix}output{method.outputs.index(place)}"
        assert isinstance(value, Tensor)
        letter = "c" if value.constant is not None else "s" if value.name else "t"
        return f"{self._prefix}{letter}{place}"

    @property
    def _prefix(self) -> str:
        return "" if self._method.name == "forward" else f"{identifier(self._method.name)}_"

    def _tensor_text(self, place: int) -> str:
        return f"v{place}" if place in self._method.moved else self._name(place)

    def _shape(self, tensor: Tensor) -> str:
        """The constant with a tensor's sizes."""
        name = "_".join(["s", *map(str, tensor.sizes)])
        if list(tensor.dim_order) != sorted(tensor.dim_order):
            name += "_order" + "".join(f"_{d}" for d in tensor.dim_order)
        self._shapes[name] = tensor
        return name

    def _tensor(self, place: int) -> str:
        """The declaration of a tensor."""
        tensor = self._method.tensor(place)
        shape = self._shape(tensor)
        about = f"  // {tensor.name}" if tensor.name else ""
        what = f"{self._name(place)}({dtype_text(tensor.dtype)}, {shape}, {self._data(place)}"
        if tensor.is_dynamic or place in self._views:
            return f"DynamicTensor<{len(tensor.sizes)}> {what}, {str(tensor.is_dynamic).lower()});{about}"
        return f"constexpr StaticTensor {what});{about}"

    def _body(self) -> Iterator[str]:
        method = self._method
        for i in sorted(method.moved | self._numbers):
            value = method.values[i]
            if isinstance(value, Tensor):
                yield f"  Tensor v{i} = {self._name(i)};"
            elif isinstance(value, (bool, int, float)):
                text = self.number_name(i) if i in self._given else self._number_text(value)
                yield f"  EValue v{i} = {_BOXED[type(value)].format(text)};"
            else:
                yield f"  EValue v{i};"
        targets = {step.target for step in method.steps if isinstance(step, JumpFalse)}
        if any(isinstance(step, JumpFalse) and step.target <= i for i, step in enumerate(method.steps)):
            yield "  uint32_t jumps_back = 0;"
        for i, step in enumerate(method.steps):
            if i in targets:
                yield f"step_{i}:"
            yield from self._step(i, step)
        if len(method.steps) in targets:
            yield f"step_{len(method.steps)}:"
        yield from self._results()
        yield "  return Error::Ok;"

    def _results(self) -> Iterator[str]:
        for place in dict.fromkeys(self._method.outputs):
            value = self._method.values[place]
            if isinstance(value, Tensor) and place in self._method.moved:
                yield f"  {self.pointer(place)} = v{place}.const_data_ptr();"
                if self._method.is_dynamic:
                    yield f"  {self.sizes(place)} = v{place}.sizes().data();"
            elif place in self._numbers:
                kind = {bool: "bool", int: "int", float: "double"}[type(value)]
                yield f"  {self.number_name(place)} = v{place}.number_as_{kind}();"

    def _step(self, i: int, step: Call | Move | JumpFalse | None) -> Iterator[str]:
        if isinstance(step, Move):
            source = self._tensor_text if isinstance(self._method.values[step.to], Tensor) else self._boxed
            yield f"  v{step.to} = {source(step.source)};  // {i}"
        elif isinstance(step, JumpFalse):
            is_tensor = isinstance(self._method.values[step.condition], Tensor)
            condition = self._tensor_text(step.condition) if is_tensor else self._boxed(step.condition)
            yield f"  if (!is_true({condition})) {{  // {i}"
            if step.target <= i:
                yield f"    if (++jumps_back > {_MOST_JUMPS_BACK}) {{"
                yield '      return failed("jump back", Error::OutOfResources);'
                yield "    }"
            yield f"    goto step_{step.target};"
            yield "  }"
        elif isinstance(step, Call):
            yield f"  // {i}  {step.kernel.removesuffix('.out')}" + (f"  {step.origin}" if step.origin else "")
            yield from self._prim(step) if step.kernel in self._prims else self._call(step)

    def _prim(self, call: Call) -> Iterator[str]:
        letters, function = self._prims[call.kernel]
        args = []
        for i in call.args[: len(letters)]:
            value = self._method.values[i]
            if isinstance(value, str):
                yield f"  static constexpr std::string_view text{i} = {string_text(value)};"
                args.append(f"EValue(&text{i})")
            elif isinstance(value, Lists):
                args.append(f"Ints<{len(value.items)}>({', '.join(map(self._boxed, value.items))}).boxed()")
            else:
                args.append(f"EValue(Tensor({self._tensor_text(i)}))" if isinstance(value, Tensor) else self._boxed(i))
        yield _wrapped(f'  ET_STEP("{call.kernel}", boxed(&prim::{function}, context', args)

    def _boxed(self, place: int) -> str:
        value = self._method.values[place]
        if place in self._numbers:
            return f"v{place}"
        assert isinstance(value, (bool, int, float)) or value is None
        return "EValue()" if value is None else _BOXED[type(value)].format(self._number_text(value))

    def _call(self, call: Call) -> Iterator[str]:
        schema = self._ops[call.kernel].kernel_schema
        function = f"{call.library}::{kernel_function(schema.name)}"
        pairs = [*zip(schema.arguments, call.args, strict=False)]
        lists = [line for argument, i in pairs for line in self._list(argument, i)]
        args = [self._argument(argument, i) for argument, i in pairs]
        yield from ["  {", *lists] if lists else []
        yield _wrapped(f'  ET_STEP("{call.kernel}", {function}(context', args)
        yield from ["  }"] if lists else []

    def _list(self, argument: Argument, place: int) -> Iterator[str]:
        """A local array for a list of tensors, of doubles or of bools."""
        value = self._method.values[place]
        kinds = {"v": "const Tensor", "w": "const OptionalTensor", "f": "constexpr double", "m": "constexpr bool"}
        if argument.letter.lower() not in kinds or not value:
            return
        if isinstance(value, Lists):
            items = [self._tensor_text(i) if i >= 0 else "std::nullopt" for i in value.items]
        else:
            assert isinstance(value, tuple)
            items = [self._number_text(one) for one in value]
        if items:
            yield f"  {kinds[argument.letter.lower()]} {argument.name}_[] = {{{', '.join(items)}}};"

    def _argument(self, argument: Argument, place: int) -> str:
        value, letter = self._method.values[place], argument.letter
        if value is None and place not in self._numbers:
            return "std::nullopt"
        if letter in "Tt":
            text = self._tensor_text(place)
            return f"Out({text})" if argument.mutated else text
        if isinstance(value, Lists) and value.kind == "int":
            items = [self._int(i) for i in value.items]
            return f"IntArrayRef{{{', '.join(items)}}}" if items else "IntArrayRef()"
        if letter.lower() in "vwfm":
            kind = {"v": "TensorList", "w": "OptionalTensorList", "f": "Span<const double>", "m": "Span<const bool>"}
            is_empty = not value or (isinstance(value, Lists) and not value.items)
            return f"{kind[letter.lower()]}{'()' if is_empty else f'({argument.name}_)'}"
        if isinstance(value, str):
            return string_text(value)
        return self._number(letter.lower(), place)

    def _int(self, place: int) -> str:
        value = self._method.values[place]
        if place in self._numbers:
            return f"v{place}.number_as_int()"
        assert isinstance(value, int)
        return int_text(int(value))

    def _number(self, letter: str, place: int) -> str:
        """A number for a parameter of a kind of numbers, converted as EValue converts it."""
        value = self._method.values[place]
        if place in self._numbers:
            forms = {"i": "number_as_int", "d": "number_as_double", "b": "number_as_bool"}
            if letter == "n":
                return f"runtime::detail::unbox_scalar(v{place})"
            return (
                f"v{place}.{forms[letter]}()"
                if letter in forms
                else f"static_cast<ScalarType>(v{place}.number_as_int())"
            )
        assert isinstance(value, (bool, int, float))
        if letter == "n":
            return scalar_text(value)
        if letter == "y":
            return dtype_text(int(value))
        if letter == "b":
            return str(bool(value)).lower()
        return int_text(int(value)) if letter == "i" else double_text(float(value))


def _wrapped(head: str, args: Sequence[str]) -> str:
    """A call in lines of at most 120 columns, where its arguments are shorter."""
    lines = [head]
    for i, argument in enumerate(args):
        piece = argument + ("," if i + 1 < len(args) else "));")
        if len(lines[-1]) + 2 + len(piece) > _COLUMNS:
            lines[-1] += "," * (i == 0)
            lines.append(f"          {piece}")
        else:
            lines[-1] += f"{',' * (i == 0)} {piece}"
    return "\n".join(lines)
