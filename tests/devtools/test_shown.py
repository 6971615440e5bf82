"""What users get, printed and in a notebook: no object says only where it lies in memory."""

import json
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from executorch_py import _core
from executorch_py._shown import Card, nbytes_text
from executorch_py.devtools import BundledProgram, Inspector, MethodTestCase, MethodTestSuite
from tests.devtools.dumps import executions
from tests.devtools.models import two_blocks


class Balanced(HTMLParser):
    """Counts open tags."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Nothing stays open."""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def objects():
    model, inputs = two_blocks()
    exported = torch.export.export(model, inputs)
    edge = et.to_edge_transform_and_lower(
        exported, partitioner=[XnnpackPartitioner(largest=True)], constant_methods={"size": 3}
    )
    program = edge.to_executorch()
    runtime = et.Runtime.get()
    loaded = runtime.load_program(program.buffer)
    method = loaded.load_method("forward")
    record = program.get_etrecord()
    plain = et.to_edge(exported).to_executorch().get_etrecord()
    inspector = Inspector(etdump_data=executions(plain.instructions["forward"], [[5] * 8]).data, etrecord=plain)
    return {
        "edge": edge,
        "program": program,
        "runtime": runtime,
        "backends": runtime.backend_registry,
        "operators": runtime.operator_registry,
        "loaded": loaded,
        "method": method,
        "metadata": method.metadata,
        "input": method.metadata.input_tensor_meta(0),
        "session": method.session,
        "module": et.load(program.buffer),
        "record": record,
        "inspector": inspector,
        "block": inspector.event_blocks[1],
        "event": inspector.event_blocks[1].events[0],
        "times": inspector.event_blocks[1].events[0].perf_data,
        "bundled": BundledProgram(program, [MethodTestSuite("forward", [MethodTestCase(inputs)])]),
        "macs": et.count_macs(exported, inputs),
        "delegation": et.delegation_report(edge),
        "validation": et.validate(program, model, inputs, verbose=False),
    }


@pytest.fixture(scope="module")
def made():
    return objects()


def test_every_object_says_what_it_is(made):
    for name, one in made.items():
        for text in (repr(one), str(one)):
            assert " object at 0x" not in text and len(text) > 8, name
        if hasattr(one, "_repr_html_"):
            html = one._repr_html_()
            parser = Balanced()
            parser.feed(html)
            assert not parser.open and "http" not in html and "<script" not in html, name


def test_notebooks_show_tables(made):
    for name in ("edge", "program", "loaded", "method", "module", "backends", "inspector", "block"):
        assert "<table" in made[name]._repr_html_(), name
    for name in ("macs", "delegation", "validation", "record", "bundled", "metadata", "input"):
        assert made[name]._repr_html_().startswith("<"), name


def test_nothing_is_cut_where_the_page_is_narrow(made, tmp_path):
    """At the width of a telephone what is too wide scrolls in its place."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium (make browser-setup installs it)")
    shown = {name: one._repr_html_() for name, one in made.items() if hasattr(one, "_repr_html_")}
    shown["wide"] = Card("wide", (), ("title " * 9, "x"), [("word" * 60, "word" * 60)]).html()
    boxes = "".join(f'<div class="box" id="{name}" style="width:420px">{html}</div>' for name, html in shown.items())
    measure = """
        const cut = box => [box, ...box.querySelectorAll("*")].filter(one =>
            one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display != "inline" &&
            !one.closest('[style*="overflow-x:auto"]')).map(one => one.tagName);
        const found = [...document.querySelectorAll(".box")].map(box => [box.id, cut(box)]);
        document.body.textContent = JSON.stringify(found);
    """
    page = tmp_path / "page.html"
    page.write_text(f"<html><body>{boxes}<script>{measure}</script></body></html>")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", page.as_uri()]
    text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    found = dict(json.loads(unescape(re.search(r"<body>(.*)</body>", text, re.S)[1])))
    assert set(found) == set(shown) and not any(found.values()), {name: cut for name, cut in found.items() if cut}


def test_programs_tell_their_methods(made):
    assert "x: float32[4, 16]" in repr(made["edge"]) and "XnnpackBackend: 8" in repr(made["edge"])
    text = repr(made["program"])
    assert "8 nodes in XnnpackBackend" in text and "constant methods size" in text and "1 instruction" in text
    assert re.search(r"forward +x: float32\[4, 16\]", repr(made["loaded"]))
    assert "1 delegate of XnnpackBackend" in repr(made["method"])
    assert repr(made["validation"]) == made["validation"].table()


def test_html_escapes_names():
    card = Card("<b>&", ["a<b"], ("x",), [("<script>",)])
    assert "<script>" not in card.html() and "a&lt;b" in card.html()


def test_sizes():
    sizes = {0: "0 bytes", 1023: "1023 bytes", 1536: "1.5 KiB", 3 << 20: "3.0 MiB", 5 << 30: "5.0 GiB"}
    assert {size: nbytes_text(size) for size in sizes} == sizes


def test_objects_of_the_extension_module():
    """Those that nothing wraps, too: each says what it is and what it holds."""
    model, inputs = two_blocks()
    manager = et.to_edge_transform_and_lower(torch.export.export(model, inputs)).to_executorch()
    program = et.Runtime.get().load_program(manager.buffer)
    method = program.load_method("forward")
    texts = {
        "Program(forward)": program._core,
        "Method('forward')": method._core,
        "MethodMetadata('forward'": method.metadata._core,
        "TensorInfo('x', Float[4, 16])": method.metadata.input_tensor_meta(0)._core,
        "Session": method._core.session,
        "_core.CompiledProgram": manager._compiled,
        "_core.ProgramBuilder": _core.parse_program("method @f(%x: f32[4]) stage(lowered) {\n  return %x\n}"),
    }
    for begins, one in texts.items():
        assert repr(one).startswith(begins) and "object at 0x" not in repr(one)
        page = Balanced()
        page.feed(one._repr_html_())
        assert page.open == []
    assert re.search(r"nbytes +\d+", repr(manager._compiled))
    kinds = [kind for kind in vars(_core).values() if isinstance(kind, type) and kind.__module__ == _core.__name__]
    assert len(kinds) > 10 and all(kind.__repr__ is not object.__repr__ for kind in kinds)


def test_a_context_of_a_call_that_is_over():
    kept = []

    class Keeps:
        def init(self, context, processed, specs):
            kept.append(context)
            assert "method_name" in repr(context) and "forward" in repr(context)

        def execute(self, context, handle, args):
            args[-1][...] = args[0]

    et.Runtime.get().register_backend("KeepsItsContext", Keeps())
    text = (
        'delegate "KeepsItsContext" = "x"\nmethod @forward(%x: f32[2]) stage(lowered) {\n'
        "  %y = delegate @0(%x) : f32[2]\n  return %y\n}"
    )
    data = _core.finish(_core.parse_program(text), {}).to_bytes()
    et.Runtime.get().load_program(data).load_method("forward")
    assert "_core.BackendInitContext" in repr(kept[0])
