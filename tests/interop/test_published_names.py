"""The table of published paths against the published package itself: no module, name or keyword is missing without a
reason.
"""

import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from executorch_py.compat import published

HERE = Path(__file__).parent
ROOT = HERE.parent.parent

pytestmark = pytest.mark.interop


def peer_python() -> Path:
    python = Path(os.environ.get("ET_PEER_PYTHON", ROOT / ".venv-interop" / "bin" / "python"))
    if not python.exists():
        if os.environ.get("ET_REQUIRE_PEER"):
            pytest.fail(f"{python} does not exist; `make interop` sets it up")
        pytest.skip("no environment with executorch==1.5.1 (make interop sets one up)")
    return python


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    path = tmp_path_factory.mktemp("names") / "names.json"
    subprocess.run([peer_python(), HERE / "published_names.py", path], check=True, capture_output=True)
    return json.loads(path.read_text())


def ours(module: str, name: str):
    """The object here, or the reason why there is none."""
    try:
        return getattr(importlib.import_module(f"executorch_py.{module}"), name), ""
    except (ImportError, AttributeError):
        return None, published.why_not(f"{module}.{name}")


def test_every_module_and_name_is_here_or_has_a_reason(told):
    assert len(told) > 200
    missing = []
    for module, facts in told.items():
        for name in facts.get("names", {}):
            found, reason = ours(module, name)
            if found is None and not reason:
                missing.append(f"{module}.{name}")
    assert not missing


def classes(told):
    """Each class that both have, with what the published package tells of its members."""
    for module, facts in told.items():
        for name, fact in facts.get("names", {}).items():
            found, _ = ours(module, name)
            if inspect.isclass(found):
                yield f"{module}.{name}", found, fact["methods"]


def test_every_member_of_a_class_is_here_or_has_a_reason(told):
    missing = [
        f"{path}.{member}"
        for path, found, members in classes(told)
        for member in members
        if not hasattr(found, member)
        and member not in getattr(found, "__dataclass_fields__", ())
        and not published.why_not(f"{path}.{member}")
    ]
    assert not missing


def test_keywords_of_methods(told):
    """What a call of a method may say there it may say here, and what it may leave out."""
    wrong = []
    for path, found, members in classes(told):
        for member, parameters in members.items():
            try:
                mine = inspect.signature(getattr(found, member)).parameters
            except (AttributeError, TypeError, ValueError):
                continue
            if parameters is None or any(one.kind is one.VAR_KEYWORD for one in mine.values()):
                continue
            for parameter, optional, _ in parameters:
                where = f"{path}.{member}({parameter})"
                if parameter not in mine:
                    wrong.append(f"{where} is no keyword here")
                elif optional and mine[parameter].default is inspect.Parameter.empty:
                    wrong.append(f"{where} can be left out there")
    assert sorted(set(wrong) - PASSES_OVER_PROGRAMS) == []


#: Passes over graphs there and over whole programs here; transform() calls them.
PASSES_OVER_PROGRAMS = {
    f"exir.passes.quantize_io_pass.{name}.call(graph_module) is no keyword here"
    for name in ("QuantizeInputs", "QuantizeOutputs")
}


def test_keywords_and_defaults(told):
    """What a call may say there it may say here, with the same defaults where they are plain values."""
    wrong = []
    for module, facts in told.items():
        for name, fact in facts.get("names", {}).items():
            found, _ = ours(module, name)
            if found is None or fact["parameters"] is None or not callable(found):
                continue
            try:
                mine = inspect.signature(found).parameters
            except (TypeError, ValueError):
                continue
            variadic = any(one.kind is one.VAR_KEYWORD for one in mine.values())
            for parameter, optional, default in fact["parameters"]:
                where = f"{module}.{name}({parameter})"
                if parameter not in mine:
                    if not variadic and f"{module}.{name}" not in NOT_CALLED:
                        wrong.append(f"{where} is no keyword here")
                    continue
                own = mine[parameter].default
                plain = isinstance(own, (bool, int, float, str, type(None)))
                if optional and own is inspect.Parameter.empty:
                    wrong.append(f"{where} can be left out there")
                elif default is not None and plain and repr(own) != default and where not in OTHER_DEFAULTS:
                    wrong.append(f"{where} is {default} there and {own!r} here")
    assert not wrong


#: Where a default is another one here, and why.
OTHER_DEFAULTS = {
    # names of mutable buffers are always written
    "exir.capture._config.ExecutorchBackendConfig(emit_mutable_buffer_names)",
}

#: Classes that users do not make: managers and what the runtime gives, and operators, which are torch's here.
NOT_CALLED = {
    "exir.dialects.backend._ops.BackendOpOverload",
    "exir.dialects.backend._ops.BackendOpOverloadPacket",
    "exir.dialects.edge._ops.EdgeOpOverload",
    "exir.dialects.edge._ops.EdgeOpOverloadPacket",
    "exir.program._program.ExecutorchProgramManager",
    "runtime.BackendRegistry",
    "runtime.Method",
    "runtime.OperatorRegistry",
    "runtime.Program",
    "runtime.Runtime",
}


def run_steps(python, root: str, environment=None) -> dict[str, str]:
    command = [python, HERE / "tutorial_steps.py", root]
    result = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = [line.split(" ", 1) for line in result.stdout.splitlines() if line.startswith(("ok ", "FAIL "))]
    told = {rest.split(":", 1)[0]: status for status, rest in lines}
    assert told, result.stderr
    return told | {"": result.stdout}


@pytest.mark.slow
@pytest.mark.timeout(1500)  # some two hundred programs: seven minutes of a core with AVX2
def test_every_step_of_the_tutorials_that_passes_there_passes_here():
    there = run_steps(peer_python(), "executorch")
    here = run_steps(sys.executable, "executorch_py", os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    passing = {name for name, status in there.items() if status == "ok"}
    assert len(passing) >= 153
    failing = sorted(name for name in passing if here.get(name) != "ok")
    assert not failing, here[""]
