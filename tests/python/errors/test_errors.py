"""The exception classes: one table with the core, the builtins they also are, texts and pickling."""

import pickle

import pytest

import executorch_py
from executorch_py import _core, _lazy, errors

CODES = [entry for entry in _core.error_codes() if entry[0] != "Ok"]


def test_every_code_has_its_member_and_class():
    assert {name: value for name, value, _, _ in _core.error_codes()} == {c.name: int(c) for c in errors.ErrorCode}
    assert {name: python_class for name, _, python_class, _ in CODES} == {
        code.name: cls.__name__ for code, cls in errors.CLASS_OF_CODE.items()
    }


def test_the_package_gives_every_public_name_of_the_module():
    named = {name for name, value in vars(errors).items() if getattr(value, "__module__", "") == errors.__name__}
    public = {name for name in named if isinstance(getattr(errors, name), type) and not name.startswith("_")}
    assert public == {name for name, home in _lazy.exports(executorch_py.__file__).items() if home == ".errors"}


@pytest.mark.parametrize(("name", "value", "python_class", "meaning"), CODES)
def test_make_exception(name, value, python_class, meaning):
    error = errors.make_exception(value, meaning, [])
    assert type(error).__name__ == python_class
    assert isinstance(error, errors.ExecutorchError) and isinstance(error, RuntimeError)
    assert error.code.name == name and str(error) == meaning and error.diagnostics == ()
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.code == error.code and str(again) == meaning


@pytest.mark.parametrize(
    ("cls", "builtin"),
    [
        (errors.InvalidArgumentError, ValueError),
        (errors.InvalidTypeError, TypeError),
        (errors.NotSupportedError, NotImplementedError),
        (errors.OperatorMissingError, LookupError),
        (errors.NotFoundError, LookupError),
        (errors.InvalidProgramError, ValueError),
        (errors.InvalidExternalDataError, ValueError),
        (errors.OutOfMemoryError, MemoryError),
        (errors.AccessFailedError, OSError),
    ],
)
def test_classes_are_also_the_natural_builtin(cls, builtin):
    with pytest.raises(builtin, match="what is wrong"):
        raise cls("what is wrong")


def test_text_names_the_place_once():
    place = {
        "method": "forward",
        "instruction": 3,
        "op": "aten::embedding.out",
        "module_path": "tok",
        "file": "m.py",
        "line": 7,
    }
    error = errors.make_exception(0x12, "index 9 is out of range", [{"message": "index 9 is out of range", **place}])
    assert str(error) == (
        "index 9 is out of range\n  at method 'forward', instruction 3, aten::embedding.out, module tok, m.py:7"
    )
    (found,) = error.diagnostics
    assert (found.op, found.file, found.line, found.code) == (
        "aten::embedding.out",
        "m.py",
        7,
        errors.ErrorCode.InvalidArgument,
    )


def test_text_lists_several_diagnostics():
    error = errors.make_exception(
        0x14,
        "2 operators have no kernel",
        [{"message": "no kernel for a::b", "node": "b_1"}, {"message": "no kernel for c::d"}],
    )
    assert str(error).splitlines() == [
        "2 operators have no kernel",
        "  no kernel for a::b [node b_1]",
        "  no kernel for c::d",
    ]
