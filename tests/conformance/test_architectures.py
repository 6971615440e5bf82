"""Some published architectures, small and with random weights, on our own kernels and with the delegate.

All of them: python -m tests.conformance --group architecture.
"""

from __future__ import annotations

import pytest

from tests.conformance.case import Status, run_item
from tests.conformance.samples import Item

#: Each brings something that the others lack: experts, recurrences by scan, convolutions of sound, windows that shift,
#: state spaces, Fourier transforms, two towers, hashing by characters, a noise of its own.
SPREAD = (
    "torchvision.shufflenet_v2_x0_5",
    "torchvision.swin_t",
    "transformers.canine",
    "transformers.clip",
    "transformers.deberta-v2",
    "transformers.fnet",
    "transformers.mamba",
    "transformers.mixtral",
    "transformers.t5",
    "transformers.univnet",
    "transformers.wav2vec2",
    "transformers.xlnet",
)


@pytest.mark.parametrize("name", SPREAD)
def test_architecture(name: str) -> None:
    outcomes = [outcome for _, outcome in run_item(Item("architecture", name, "float32", 2), seed=0) if outcome]
    assert len(outcomes) == 2
    for outcome in outcomes:
        assert outcome.status is Status.PASSED, f"{outcome.key}: {outcome.status.value}: {outcome.detail}"
