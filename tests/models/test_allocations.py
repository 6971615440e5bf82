"""A call allocates nothing: ten further calls of a model take as many blocks from the heap as none.

A library that counts the calls of malloc and its kin is put in front of executor_runner (LD_PRELOAD), so that XNNPACK and the
thread pool are counted too.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from executorch_py.backends.xnnpack import XnnpackPartitioner

import executorch_py as et
from tests.models.zoo import ZOO

RUNNER = Path(os.environ.get("ET_BUILD_DIR", Path(__file__).resolve().parents[2] / "build/dev")) / "bin/executor_runner"
COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
static unsigned long blocks;
#define COUNTED(result, name, parameters, arguments)          \
  result name parameters {                                    \
    static result(*next) parameters;                          \
    __atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);         \
    if (!next) next = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
    return next arguments;                                    \
  }
COUNTED(void*, malloc, (size_t n), (n))
COUNTED(void*, calloc, (size_t n, size_t m), (n, m))
COUNTED(void*, realloc, (void* p, size_t n), (p, n))
COUNTED(void*, aligned_alloc, (size_t a, size_t n), (a, n))
COUNTED(int, posix_memalign, (void** p, size_t a, size_t n), (p, a, n))
__attribute__((destructor)) static void say(void) { fprintf(stderr, "blocks: %lu\n", blocks); }
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="counts with a preloaded library"),
]


@pytest.fixture(scope="module")
def counter(tmp_path_factory) -> Path:
    """The counting library."""
    folder = tmp_path_factory.mktemp("counter")
    (folder / "counter.c").write_text(COUNTER)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "counter.c", "-o", "counter.so", "-ldl"], cwd=folder, check=True)
    return folder / "counter.so"


def blocks_of(counter: Path, model: Path, runs: int, threads: int) -> int:
    """How many blocks a process takes that runs the model so often."""
    command = [RUNNER, "--model", model, "--runs", str(runs), "--threads", str(threads)]
    environment = os.environ | {"LD_PRELOAD": str(counter)}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
    return int(said.rpartition("blocks: ")[2])


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("name", ["mobilenet_v3_small", "ds_cnn", "unet", "vit_small", "lstm"])
def test_a_call_allocates_nothing(name, delegated, counter, tmp_path) -> None:
    model = tmp_path / "model.pte"
    partitioners = [XnnpackPartitioner()] if delegated else []
    exported = ZOO[name]()["forward"].export()
    et.to_edge_transform_and_lower(exported, partitioner=partitioners).to_executorch().save(model)
    for threads in (1, 2):
        once = blocks_of(counter, model, 1, threads)
        assert once > 0, "nothing was counted"
        assert blocks_of(counter, model, 11, threads) == once, f"{threads} thread(s)"
