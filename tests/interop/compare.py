"""How interop compares: equal integers, floats within 1e-5 of the largest value."""

from __future__ import annotations

from collections.abc import Sequence

import torch

RELATIVE = 1e-5


def flat(outputs: object) -> list[object]:
    """The leaves of a module's output, in pytree order."""
    return torch.utils._pytree.tree_leaves(outputs)


def assert_close(actual: Sequence[object], expected: Sequence[object], relative: float = RELATIVE) -> None:
    """Raises AssertionError, naming the output, unless every output has the expected sizes, dtype and values."""
    assert len(actual) == len(expected), f"{len(actual)} outputs, expected {len(expected)}"
    for i, (ours, eager) in enumerate(zip(actual, expected)):
        if not isinstance(eager, torch.Tensor):
            assert ours == eager, f"output {i}: {ours!r}, expected {eager!r}"
            continue
        assert isinstance(ours, torch.Tensor), f"output {i} is {type(ours)}"
        assert ours.dtype == eager.dtype, f"output {i}: {ours.dtype}, expected {eager.dtype}"
        assert ours.shape == eager.shape, f"output {i}: {tuple(ours.shape)}, expected {tuple(eager.shape)}"
        if not eager.dtype.is_floating_point:
            assert torch.equal(ours, eager), (
                f"output {i} differs in {(ours != eager).sum()} of {eager.numel()} elements"
            )
            continue
        a, b = ours.double(), eager.double()
        special = ~torch.isfinite(b)
        assert torch.equal(torch.isnan(a), torch.isnan(b)), f"output {i}: NaNs differ"
        assert torch.equal(a[special].nan_to_num(), b[special].nan_to_num()), f"output {i}: infinities differ"
        finite = ~special
        if finite.any():
            error = (a - b)[finite].abs().max()
            limit = relative * b[finite].abs().max()
            # one unit in the last place of a narrow type is more than 1e-5
            limit = torch.maximum(limit, torch.finfo(eager.dtype).eps * b[finite].abs().max())
            assert error <= limit, f"output {i}: largest error {error:.3g}, permitted {limit:.3g}"
