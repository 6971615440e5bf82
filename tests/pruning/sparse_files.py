"""Files whose weights stand without their zeros, and what both kinds of them (a delegate's, a kernel's) are asked."""

import contextlib

import numpy as np
import pytest
import torch

import executorch_py as et
from executorch_py.cli import main


def entries_of(file: bytes, prefix: str) -> dict[str, int]:
    """The sparse entries of a kind: key -> bytes."""
    entries = et.Runtime.get().load_program(file).named_data()
    return {key: size for key, size in entries.items() if key.startswith(prefix)}


def expect_errors_where_changed(good: bytes, prefix: str, inputs: tuple[torch.Tensor, ...]) -> None:
    """Bits of the entries, changed in the file: an error or, for values, other numbers; never a crash."""
    runtime = et.Runtime.get().load_program(good)
    places = [(good.index(runtime.read_named_data(key)), size) for key, size in entries_of(good, prefix).items()]
    assert places
    for place, _ in places:
        for offset in (0, 4, 5, 6, 9, 16, 40):
            bad = bytearray(good)
            bad[place + offset] ^= 0x20
            with pytest.raises(et.InvalidProgramError, match=f"named data '{prefix}"):
                et.load(bytes(bad))(*inputs)
    generator = np.random.default_rng(0)
    for _ in range(200):
        bad = bytearray(good)
        for _ in range(generator.integers(1, 4)):
            place, size = places[generator.integers(len(places))]
            bad[place + generator.integers(size)] ^= 1 << generator.integers(8)
        with contextlib.suppress(et.ExecutorchError):
            et.load(bytes(bad))(*inputs)


def inspected(file: bytes, prefix: str, tmp_path, capsys) -> list[str]:
    """The lines of `etpy inspect` about the entries."""
    path = tmp_path / "model.pte"
    path.write_bytes(file)
    assert main(["inspect", str(path)]) == 0
    return [line for line in capsys.readouterr().out.splitlines() if line.strip().startswith(prefix)]
