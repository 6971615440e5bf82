"""Backends written in Python, and plug-ins."""

import pathlib
from typing import ClassVar

import numpy as np
import pytest

import executorch_py as et
from tests.python.runtime.programs import DELEGATE, compile_text

RUNTIME = et.Runtime.get()
X = np.array([[1, 2], [3, 4]], np.float32)
TEXT = DELEGATE


def run(text=TEXT):
    return RUNTIME.load_program(compile_text(text)).load_method("forward").execute([X])[0]


class Multiply:
    """Multiplies by the compile spec `factor`."""

    log: ClassVar[list] = []

    def init(self, context, processed, compile_specs):
        self.log.append(("init", context.method_name, processed, [(spec.key, spec.value) for spec in compile_specs]))
        self.context = context
        return float(compile_specs[0].value)

    def execute(self, context, handle, args):
        self.log.append(("execute", context.instruction))
        source, target = args
        target[...] = handle * source

    def destroy(self, handle):
        self.log.append(("destroy", handle))


def test_a_backend_in_python():
    Multiply.log.clear()
    RUNTIME.register_backend("TestBackend", Multiply)
    assert "TestBackend" in RUNTIME.backend_registry.registered_backend_names
    assert RUNTIME.backend_registry.is_available("TestBackend")
    method = RUNTIME.load_program(compile_text(TEXT)).load_method("forward")
    assert method.metadata.backends() == ("TestBackend",)
    assert np.array_equal(method.execute([X])[0], 6 * X)
    del method
    assert Multiply.log == [
        ("init", "forward", b"payload", [("factor", b"3")]),
        ("execute", 1),
        ("destroy", 3.0),
    ]


def test_a_context_ends_with_its_call():
    backend = Multiply()
    RUNTIME.register_backend("TestBackend", backend)
    run()
    with pytest.raises(et.InvalidStateError, match="call that has ended"):
        _ = backend.context.method_name


class Failing(Multiply):
    def __init__(self, where, error):
        self.where, self.error = where, error

    def init(self, context, processed, compile_specs):
        if self.where == "init":
            raise self.error
        return super().init(context, processed, compile_specs)

    def execute(self, context, handle, args):
        raise self.error


@pytest.mark.parametrize("where", ["init", "execute"])
@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), et.OutOfMemoryError("ours"), KeyError("k")], ids=repr)
def test_its_exceptions_come_out_as_they_are(where, error):
    RUNTIME.register_backend("TestBackend", Failing(where, error))
    with pytest.raises(type(error)) as caught:
        run()
    assert caught.value is error
    RUNTIME.register_backend("TestBackend", Multiply)
    assert np.array_equal(run(), 6 * X), "nothing of it is left"


def test_unavailable_and_unfit_backends():
    class Absent(Multiply):
        def is_available(self):
            return False

    RUNTIME.register_backend("TestBackend", Absent)
    assert not RUNTIME.backend_registry.is_available("TestBackend")
    with pytest.raises(et.ExecutorchError, match="TestBackend"):
        run()
    with pytest.raises(et.InvalidArgumentError, match=r"has no method execute\(\)"):
        RUNTIME.register_backend("Other", type("Half", (), {"init": lambda *_: None}))


def test_a_backend_may_load_a_program_but_not_register():
    class Nested(Multiply):
        def init(self, context, processed, compile_specs):
            text = (
                "method @forward(%x: f32[2, 2]) stage(lowered) {\n  %y = aten::neg.out(%x) : f32[2, 2]\n  return %y\n}"
            )
            self.inner = et.load(compile_text(text))
            self.inner(X)
            with pytest.raises(et.InvalidStateError, match="while this thread loads"):
                RUNTIME.register_backend("Another", Multiply)
            return None

        def execute(self, context, handle, args):
            args[1][...] = self.inner(args[0])

    RUNTIME.register_backend("TestBackend", Nested)
    assert np.array_equal(run(), -2 * X)


def test_dynamic_outputs_are_resized():
    class Rows(Multiply):
        def execute(self, context, handle, args):
            with pytest.raises(et.InvalidArgumentError, match="argument 7"):
                context.resize(7, [1])
            context.resize(1, args[0].shape)[...] = args[0] * 10

    RUNTIME.register_backend("TestBackend", Rows)
    text = (
        'delegate "TestBackend" spec("factor", "3") = "payload"\n'
        "method @forward(%x: f32[s0:{1..8}, 2]) stage(lowered) "
        "{\n  %y = delegate @0(%x) : f32[s0:{1..8}, 2]\n  return %y\n}"
    )
    method = RUNTIME.load_program(compile_text(text)).load_method("forward")
    for rows in (3, 8, 1):
        (y,) = method.execute([np.ones((rows, 2), np.float32)])
        assert y.shape == (rows, 2) and (y == 10).all()


def test_what_is_no_plugin(tmp_path):
    path = tmp_path / "plugin.so"
    path.write_bytes(b"no library")
    with pytest.raises(et.AccessFailedError, match=r"plugin\.so cannot be opened"):
        RUNTIME.load_plugin(path)
    from executorch_py import _core

    with pytest.raises(et.InvalidArgumentError, match="has no function et_plugin_entry"):
        RUNTIME.load_plugin(_core.__file__)


def plugin(name):
    """A library of tests/cpp/plugin, where the tests in C++ are built."""
    from executorch_py import _core

    path = pathlib.Path(_core.__file__).parents[2] / "bin" / f"libet_test_{name}.so"
    if not path.exists():
        pytest.skip(f"{path.name} is not built")
    return path


def test_a_plugin_brings_kernels_and_backends():
    path = plugin("plugin")
    assert RUNTIME.load_plugin(path) == "test_plugin"
    assert RUNTIME.load_plugin(path) == "test_plugin", "once more does nothing"
    text = """
delegate "TestPluginBackend" = "x"
method @forward(%x: f32[2, 2]) stage(lowered) {
  %a = test_plugin::triple.out(%x) : f32[2, 2]
  %b = delegate @0(%a) : f32[2, 2]
  return %a, %b
}"""
    method = RUNTIME.load_program(compile_text(text)).load_method("forward")
    tripled, filled = method.execute([X])
    assert np.array_equal(tripled, 3 * X) and (filled == 7).all()
    with pytest.raises(et.InvalidArgumentError, match="triple: element 0 is negative"):
        method.execute([-X])


def test_plugins_of_installed_packages(monkeypatch):
    path = plugin("plugin")

    class Entry:
        def __init__(self, function):
            self.function = function

        def load(self):
            return self.function

    asked = []

    def entry_points(**selection):
        asked.append(selection)
        return [Entry(lambda: path), Entry(lambda: str(path))]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert RUNTIME.load_entry_points() == ["test_plugin", "test_plugin"]
    assert asked == [{"group": "executorch_py.backends"}]
    assert "test_plugin::triple.out" in RUNTIME.operator_registry.operator_names
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [Entry(lambda: "/nowhere/plugin.so")])
    with pytest.raises(et.AccessFailedError, match=r"/nowhere/plugin\.so"):
        RUNTIME.load_entry_points()


def test_why_a_backend_refuses_its_payload_is_said():
    RUNTIME.load_plugin(plugin("plugin"))
    text = (
        'delegate "TestPluginBackend" = "too long"\n'
        "method @forward(%x: f32[2, 2]) stage(lowered) {\n  %y = delegate @0(%x) : f32[2, 2]\n  return %y\n}"
    )
    program = RUNTIME.load_program(compile_text(text))
    with pytest.raises(et.DelegateError) as caught:
        program.load_method("forward")
    what, where = str(caught.value).splitlines()
    assert what == "fill: the payload has 8 bytes, not 1"
    assert where.strip().startswith("at method 'forward': backend 'TestPluginBackend' cannot make delegate 0")


def test_a_plugin_of_another_version_is_refused():
    with pytest.raises(et.NotSupportedError, match="built for plug-in version 0, this runtime has version 3"):
        RUNTIME.load_plugin(plugin("old_plugin"))


def test_results_are_written_into_arrays_and_not_put_in_their_place():
    class Replacing(Multiply):
        def execute(self, context, handle, args):
            args[1] = handle * args[0]

    RUNTIME.register_backend("TestBackend", Replacing)
    with pytest.raises(TypeError, match="does not support item assignment"):
        run()
