"""Fixtures of the runtime's tests."""

import pytest

from executorch_py.runtime import Runtime
from tests.python.runtime.programs import compile_text


@pytest.fixture
def load_method():
    """``load_method(text, name="forward", **options)``: a method of a program given as text."""

    def load(text: str, name: str = "forward", **options):
        return Runtime.get().load_program(compile_text(text, **options)).load_method(name)

    return load
