"""What a program has of what a runtime may leave out: src/cpp/runtime/features.h, the numbers of which these are."""

from __future__ import annotations

from enum import IntFlag

from executorch_py.codegen.flatbuffer import Table, read_root

__all__ = ["Feature", "features_of"]

# Members of the unions of program.fbs.
_TENSOR, _KERNEL_CALL, _DELEGATE_CALL = 5, 1, 2


class Feature(IntFlag):
    """A part of a program."""

    DEBUG_INFO = 1
    DYNAMIC_SHAPES = 2
    DELEGATES = 4
    EXTERNAL_TENSORS = 8
    CONTROL_FLOW = 16
    KEPT_MEMORY = 32
    SEQUENCES = 64


def features_of(data: bytes) -> Feature:
    """The features that a verified program needs; slots are those of program.fbs."""
    program = read_root(data, b"ET12")
    plans = program.tables(1)
    shares_memory = sum(len(plan.numbers(8, "q")) > 2 for plan in plans) > 1  # as Program::load sees it
    found = Feature.KEPT_MEMORY if shares_memory else Feature(0)
    if "executorch_py.debug" in (entry.text(0) for entry in program.tables(7)):
        found |= Feature.DEBUG_INFO
    for plan in plans:
        if plan.tables(7):
            found |= Feature.DELEGATES
        for value in plan.tables(2):
            tensor = value.table(1) if value.scalar(0, "B") == _TENSOR else None
            found |= _features_of_tensor(tensor) if tensor is not None else Feature(0)
        for chain in plan.tables(5):
            if any(one.scalar(0, "B") > _DELEGATE_CALL for one in chain.tables(2)):
                found |= Feature.CONTROL_FLOW
        if any(_is_over_a_sequence(call, plan) for chain in plan.tables(5) for call in chain.tables(2)):
            found |= Feature.SEQUENCES
    return found


def _is_over_a_sequence(instruction: Table, plan: Table) -> bool:
    """True for a convolution of integers over one dimension."""
    call = instruction.table(1) if instruction.scalar(0, "B") == _KERNEL_CALL else None
    if call is None or plan.tables(6)[call.scalar(0, "i")].text(0) != "et::quantized_convolution":
        return False
    image = plan.tables(2)[call.numbers(1)[0]].table(1)
    return image is not None and len(image.numbers(2)) == 3


def _features_of_tensor(tensor: Table) -> Feature:
    found = Feature.DYNAMIC_SHAPES if tensor.scalar(8, "b") else Feature(0)
    extra = tensor.table(9)
    if extra is not None and extra.scalar(2, "b"):
        found |= Feature.EXTERNAL_TENSORS
    if extra is not None and extra.text(1) and tensor.table(6) is not None:
        found |= Feature.KEPT_MEMORY
    return found
