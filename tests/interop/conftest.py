"""The environment of the official package, and a helper that runs peer.py in it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


@pytest.fixture(scope="module")
def chosen(request: pytest.FixtureRequest) -> Callable[[str], set[str]]:
    """`chosen("test_a_file")`: the names that this run gives the file's test, as `--parts` leaves some out.

    What the official exporter makes for a name takes seconds to minutes.
    """

    def names(test: str) -> set[str]:
        cases = (
            item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path
        )
        return {case.callspec.params["name"] for case in cases if case.originalname == test}

    return names


@pytest.fixture(scope="session")
def peer_server() -> Iterator[Callable[..., str]]:
    """`peer_server(log, "lower", "run", folder)`: what peer.py does with these words, and what it prints.

    One process imports the official package, which takes seconds, and forks for each call.
    ET_PEER_PYTHON names another interpreter. Without one the tests are skipped, unless ET_REQUIRE_PEER is set (as the
    Makefile does), so that they cannot go missing unseen.
    """
    python = Path(os.environ.get("ET_PEER_PYTHON", ROOT / ".venv-interop" / "bin" / "python"))
    if not python.exists():
        if os.environ.get("ET_REQUIRE_PEER"):
            pytest.fail(f"{python} does not exist; `make interop` sets it up")
        pytest.skip("no environment with executorch==1.5.1 (make interop sets one up)")

    def run(log: Path, *words: str) -> str:
        print(json.dumps([str(log), *words]), file=server.stdin, flush=True)
        code = server.stdout.readline().strip()
        assert code == "0", f"peer.py {' '.join(words)} ended with {code}:\n{log.read_text()[-2000:]}"
        return log.read_text()

    command = [python, HERE / "peer.py", "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        yield run


@pytest.fixture(scope="session")
def peer(peer_server: Callable[..., str]) -> Callable[[str, Path], None]:
    """`peer("lower run", folder)`: commands of peer.py, one after the other, in the environment that `make interop`
    sets up.
    """

    def run(commands: str, folder: Path) -> None:
        peer_server(folder / f"peer_{commands.replace(' ', '_')}.log", *commands.split(), str(folder))

    return run


@pytest.fixture(scope="session")
def peer_script(peer_server: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """`peer_script("devtools_peer.py", "write", folder)`: runs a script of this folder there; what it prints."""
    log = tmp_path_factory.mktemp("peer") / "script.log"
    return lambda script, *words: peer_server(log, "script", str(HERE / script), *map(str, words))
