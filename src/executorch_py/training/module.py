"""TrainingModule: a program's training methods, with parameters and gradients by name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, BinaryIO

from executorch_py import _arguments, _core
from executorch_py.errors import InvalidStateError
from executorch_py.runtime import Method, Program, Runtime, Session

from .optimizers import Optimizer


class TrainingModule:
    """A program with methods that return gradients.

    Parameters are state of one session: an optimizer writes them in place, and every method of the program that was
    exported with the same parameters sees the new values. Methods are loaded when they are first used.

    Threads: one call at a time.
    """

    def __init__(self, program: Program, session: Session | None = None, *, seed: int = 0) -> None:
        """Args:
        program: What :meth:`Runtime.load_program` gave.
        session: The state to train; ``None``: the program's default session.
        seed: Of the random operators, such as dropout.
        """
        self.program = _arguments.instance("program", program, Program, "a Program")
        self._session = session
        self._seed = _arguments.integer("seed", seed, 0, 2**64 - 1)
        self._training: dict[str, _core.TrainingMethod] = {}
        self._other: dict[str, Method] = {}

    @classmethod
    def load(
        cls,
        data: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO,
        *,
        data_path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        seed: int = 0,
    ) -> TrainingModule:
        """Loads a program: its path, its bytes, or a file that is open for reading. Raises as Runtime.load_program."""
        return cls(Runtime.get().load_program(data, data_path=data_path), seed=seed)

    def method_names(self) -> list[str]:
        """Names of the program's methods, those that describe training methods left out."""
        return sorted(name for name in self.program.method_names if not name.startswith("__et_training_"))

    def forward_backward(self, method_name: str, inputs: Sequence[Any], clone_outputs: bool = True) -> list[Any]:
        """Runs a training method; its gradients are then those of :meth:`named_gradients`.

        Args:
            method_name: Which one.
            inputs: A list or tuple with a value for each input.
            clone_outputs: Taken for the published API's sake; outputs own their memory, always.

        Returns:
            The model's own outputs, the loss among them.

        Raises:
            InvalidArgumentError: The method returns no gradients; or as :meth:`Method.execute`.
            NotFoundError: There is no such method.
        """
        return self._method(method_name).execute(inputs)

    execute_forward_backward = forward_backward

    def run_method(self, method_name: str, inputs: Sequence[Any]) -> list[Any]:
        """Runs a method that returns no gradients, with the present parameters. Raises as :meth:`Method.execute`."""
        name = _arguments.text("the name of a method", method_name)
        if name not in self._other:
            self._other[name] = self.program.load_method(name, session=self._session, seed=self._seed)
        return self._other[name].execute(inputs)

    def named_parameters(self, method_name: str = "forward") -> dict[str, Any]:
        """Name -> parameter, a live view: what an optimizer writes there, the method computes with.

        Torch tensors where torch is imported, else numpy arrays.
        """
        return self._method(method_name).parameters

    def named_gradients(self, method_name: str = "forward") -> dict[str, Any]:
        """Name -> gradient of the last call, a live view that the next call changes.

        Raises:
            InvalidStateError: There was no call yet.
        """
        method = self._method(method_name)
        if not method.has_gradients:
            raise InvalidStateError(
                f"method '{method_name}' has no gradients before its first execution; call forward_backward"
            )
        return method.gradients

    def named_state(self, method_name: str = "forward") -> dict[str, Any]:
        """Name -> parameter or buffer (such as the running statistics of a batch norm), live views."""
        return self._method(method_name).state

    def save_checkpoint(
        self, path: str | os.PathLike[str], optimizer: Optimizer | None = None, method_name: str = "forward"
    ) -> None:
        """Writes parameters and buffers, and what the optimizer remembers, to a ``.ptd`` file, whole or not at all.

        Raises:
            AccessFailedError: The file cannot be written.
        """
        _core.save_ptd(_arguments.path("the checkpoint", path), self._checkpoint(optimizer, method_name))

    def load_checkpoint(
        self, path: str | os.PathLike[str], optimizer: Optimizer | None = None, method_name: str = "forward"
    ) -> None:
        """Puts everything back that :meth:`save_checkpoint` wrote, or nothing.

        Raises:
            AccessFailedError: The file cannot be read.
            InvalidExternalDataError: It is no checkpoint, or one of another model or optimizer; says what differs.
        """
        _core.load_ptd(_arguments.path("the checkpoint", path), self._checkpoint(optimizer, method_name))

    def _checkpoint(self, optimizer: Optimizer | None, method_name: str) -> dict[str, Any]:
        remembered = (
            {}
            if optimizer is None
            else _arguments.instance("optimizer", optimizer, Optimizer, "an SGD or AdamW").named_state()
        )
        return {**self.named_state(method_name), **remembered}

    def _method(self, method_name: str) -> _core.TrainingMethod:
        name = _arguments.text("the name of a method", method_name)
        if name not in self._training:
            session = None if self._session is None else self._session._core
            self._training[name] = _core.TrainingMethod(self.program._core, name, session, self._seed)
        return self._training[name]

    def __repr__(self) -> str:
        return f"TrainingModule({', '.join(self.method_names())})"


def _load_for_executorch_for_training(path: str | os.PathLike[str]) -> TrainingModule:
    """The published name for loading a training program from a file."""
    return TrainingModule.load(path)


def _load_for_executorch_for_training_from_buffer(buffer: bytes) -> TrainingModule:
    """The published name for loading a training program from its bytes."""
    return TrainingModule.load(buffer)
