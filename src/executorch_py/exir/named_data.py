"""NamedDataStore: data that payloads share and refer to by key, under its published name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from executorch_py.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["DataEntry", "NamedDataStore", "NamedDataStoreOutput"]


@dataclass
class DataEntry:
    """Where the bytes of a key are.

    Attributes:
        buffer_index: Number of the buffer.
        alignment: Bytes.
        tensor_layout: Accepted; what kind of tensor the bytes are.
    """

    buffer_index: int
    alignment: int = 1
    tensor_layout: Any = None


@dataclass
class NamedDataStoreOutput:
    """What a store holds.

    Attributes:
        buffers: The bytes.
        pte_data: Key -> entry, for the program.
        external_data: Name of a ``.ptd`` file -> key -> entry.
    """

    buffers: list[bytes] = field(default_factory=list)
    pte_data: dict[str, DataEntry] = field(default_factory=dict)
    external_data: dict[str, dict[str, DataEntry]] = field(default_factory=dict)


class NamedDataStore:
    """Collects bytes under keys; the same bytes are stored once."""

    def __init__(self) -> None:
        self._output = NamedDataStoreOutput()
        self._index: dict[bytes, int] = {}
        self._where: dict[str, str | None] = {}

    def add_named_data(
        self,
        key: str,
        data: bytes | bytearray | torch.Tensor,
        alignment: int | None = 1,
        external_tag: str | None = None,
        tensor_layout: Any = None,
    ) -> None:
        """Adds bytes, or those of a tensor. The same key with the same bytes may come again.

        Args:
            key: Name.
            data: Bytes, or a tensor.
            alignment: Bytes.
            external_tag: Name of a ``.ptd`` file; None: the program.
            tensor_layout: Accepted.

        Raises:
            InvalidArgumentError: The key has other bytes already.
            InvalidTypeError: The data are neither bytes nor a tensor.
        """
        if isinstance(data, torch.Tensor):
            flat = data.detach().cpu().contiguous().flatten()
            data = flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
        if not isinstance(data, (bytes, bytearray)):
            raise InvalidTypeError(f"the data of '{key}' are a {type(data).__name__}, must be bytes or a tensor")
        content = bytes(data)
        output = self._output
        entries = output.pte_data if external_tag is None else output.external_data.setdefault(external_tag, {})
        if key in self._where:
            known = output.pte_data if self._where[key] is None else output.external_data[str(self._where[key])]
            if self._where[key] != external_tag or output.buffers[known[key].buffer_index] != content:
                raise InvalidArgumentError(f"the key '{key}' has other data already")
            entries[key].alignment = max(entries[key].alignment, alignment or 1)
            return
        index = self._index.setdefault(content, len(output.buffers))
        if index == len(output.buffers):
            output.buffers.append(content)
        entries[key] = DataEntry(index, alignment or 1, tensor_layout)
        self._where[key] = external_tag

    def get_named_data_store_output(self) -> NamedDataStoreOutput:
        """What the store holds, for ``PreprocessResult.data_store_output``."""
        return self._output

    def merge_named_data_store(self, other: NamedDataStoreOutput) -> None:
        """Adds all that another store holds.

        Raises:
            InvalidArgumentError: A key has other data here.
        """
        for tag, entries in ((None, other.pte_data), *other.external_data.items()):
            for key, entry in entries.items():
                self.add_named_data(key, other.buffers[entry.buffer_index], entry.alignment, tag, entry.tensor_layout)
