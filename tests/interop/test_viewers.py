"""Files of ours open in Netron and in Model Explorer with its PTE adapter: operators, and what a delegate holds.

Their environment: ``python tools/provision_system.py venv .venv-viewers viewers``. Netron draws in a real browser,
which is asked over its debugging port for the text that it shows.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from tests.devtools.models import two_blocks

ROOT = Path(__file__).resolve().parents[2]
VIEWERS = Path(os.environ.get("ET_VIEWERS_PYTHON", ROOT / ".venv-viewers/bin/python"))
pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(
        not VIEWERS.exists(), reason="no viewers (python tools/provision_system.py venv .venv-viewers viewers)"
    ),
]

EXPLORER = """
import json, sys
from pte_adapter_model_explorer.main import PTEAdapter
found = {}
for collection in PTEAdapter().convert(sys.argv[1], {})["graphCollections"]:
    for graph in collection["graphs"] if isinstance(collection, dict) else collection.graphs:
        nodes = graph["nodes"] if isinstance(graph, dict) else graph.nodes
        name = graph["id"] if isinstance(graph, dict) else graph.id
        found[name] = [node["label"] if isinstance(node, dict) else node.label for node in nodes]
print(json.dumps(found))
"""
NETRON = """
import netron, sys, time
netron.start(sys.argv[1], ("127.0.0.1", int(sys.argv[2])), browse=False)
time.sleep(300)
"""
SHOWN = "document.body.className + '|' + [...document.querySelectorAll('text')].map(one => one.textContent).join(',')"


@pytest.fixture(scope="module", params=["kernels", "delegated"])
def file(request, tmp_path_factory):
    model, inputs = two_blocks()
    partitioner = [XnnpackPartitioner(largest=True)] if request.param == "delegated" else None
    path = tmp_path_factory.mktemp("viewers") / f"{request.param}.pte"
    et.to_edge_transform_and_lower(torch.export.export(model, inputs), partitioner=partitioner).to_executorch().save(
        path
    )
    return path


def test_model_explorer(file):
    done = subprocess.run([VIEWERS, "-c", EXPLORER, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    graphs = json.loads(done.stdout.splitlines()[-1])
    if file.stem == "kernels":
        assert graphs["forward"].count("aten::linear") == 2 and "aten::cos" in graphs["forward"]
    else:
        assert "XnnpackBackend" in graphs["forward"]
        (inside,) = (nodes for name, nodes in graphs.items() if name != "forward")
        assert inside.count("XNNFullyConnected") == 2


def test_netron(file):
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium (apt-get install chromium)")
    text = asyncio.run(shown_by_netron(file, browser))
    expected = ("linear", "sin", "cos", "output") if file.stem == "kernels" else ("XnnpackBackend", "output")
    assert text.startswith("default|") and all(name in text for name in expected), text


async def shown_by_netron(file, browser):
    from tornado.websocket import websocket_connect

    netron_port, debugging_port = free_port(), free_port()
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--remote-debugging-port={debugging_port}"]
    programs = [
        subprocess.Popen([VIEWERS, "-c", NETRON, file, str(netron_port)], stdout=subprocess.DEVNULL),
        subprocess.Popen([browser, *options, "--remote-allow-origins=*", "about:blank"], stderr=subprocess.DEVNULL),
    ]
    try:
        tabs = json.loads(answer_of(f"http://127.0.0.1:{debugging_port}/json"))
        address = f"http://127.0.0.1:{netron_port}/"
        answer_of(address)
        socket_address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        connection = await websocket_connect(socket_address, max_message_size=1 << 28)

        async def call(method, **parameters):
            await connection.write_message(json.dumps({"id": 1, "method": method, "params": parameters}))
            while (answer := json.loads(await connection.read_message())).get("id") != 1:
                pass  # an event
            return answer["result"]

        await call("Network.setCookie", name="consent", value="1", url=address)
        await call("Page.navigate", url=address)
        text = ""
        for _ in range(120):
            await asyncio.sleep(0.5)
            text = (await call("Runtime.evaluate", expression=SHOWN))["result"].get("value", "")
            if text.startswith(("default|", "alert|")):
                break
        return text
    finally:
        for program in programs:
            program.kill()
            program.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def answer_of(address):
    """What a server answers, once it does."""
    for _ in range(120):
        try:
            with urllib.request.urlopen(address) as answer:
                return answer.read()
        except OSError:
            time.sleep(0.5)
    pytest.fail(f"nothing answers at {address}")
