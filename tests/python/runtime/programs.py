"""Programs for the tests of the runtime, written in the IR's text form: neither torch nor an exporter is needed."""

from executorch_py import _core

# f32[2, 3] + f32[2, 3], and their product
ADD = """
method @forward(%x: f32[2, 3], %y: f32[2, 3]) stage(lowered) {
  %s = aten::add.out(%x, %y, 1) : f32[2, 3]
  %p = aten::mul.out(%x, %y) : f32[2, 3]
  return %s, %p
}"""

# A counter that keeps what it has seen.
COUNTER = """
buffer @counter : f32[2] = [10.0, 20.0]
method @forward(%x: f32[2]) stage(lowered) {
  %b = buffer @counter : f32[2]
  %y = aten::add.out(%b, %x, 1) : f32[2]
  %c = aten::copy_(%b, %y, false) : f32[2] alias(%b)
  return %y, writes {buffer @counter = %c}
}
method @peek(%x: f32[2]) stage(lowered) {
  %b = buffer @counter : f32[2]
  %y = aten::add.out(%b, %x, 1) : f32[2]
  return %y
}"""

DYNAMIC = """
method @forward(%x: f32[s0:{2..1000}, 3]) stage(lowered) {
  %y = aten::add.out(%x, %x, 1) : f32[s0:{2..1000}, 3]
  return %y
}"""

# Work of a good part of a second that no optimiser removes: 50 products of 256 x 256.
LONG = (
    "method @forward(%x: f32[256, 256]) stage(lowered) {\n  %y0 = aten::mm.out(%x, %x) : f32[256, 256]\n"
    + "".join(f"  %y{i + 1} = aten::mm.out(%y{i}, %x) : f32[256, 256]\n" for i in range(50))
    + "  return %y50\n}"
)

# A delegate that the tests' backends run.
DELEGATE = """
delegate "TestBackend" spec("factor", "3") = "payload"
method @forward(%x: f32[2, 2]) stage(lowered) {
  %a = aten::add.out(%x, %x, 1) : f32[2, 2]
  %y = delegate @0(%a) : f32[2, 2]  // fx: lowered, in block, model.py:7 forward
  return %y
}"""


def compile_text(text: str, *, plan_inputs: bool = True, plan_outputs: bool = True) -> bytes:
    """The bytes of a `.pte` from the text of a lowered program; its inputs and outputs in planned memory or not."""
    plan = {"alloc_graph_input": plan_inputs, "alloc_graph_output": plan_outputs}
    return _core.finish(_core.parse_program(text), {"planning": {"": plan}}).to_bytes()


def identity(dtype: str, sizes: str = "2, 3") -> str:
    """A program that copies its input."""
    return (
        f"method @forward(%x: {dtype}[{sizes}]) stage(lowered) {{\n"
        f"  %y = aten::clone.out(%x, none) : {dtype}[{sizes}]\n  return %y\n}}"
    )
