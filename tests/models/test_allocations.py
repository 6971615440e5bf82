"""A call allocates nothing, and on one thread it takes no lock: ten further calls of a model take as many blocks from
the heap and as many locks as none. On two threads a load takes a region more or less for packed weights, by how the
parts fall on the threads, so that there ten calls take fewer than ten blocks.

A library that counts the calls of malloc and its kin, and of pthread's locks and waits, is put in front of
executor_runner (LD_PRELOAD), so that XNNPACK and the thread pool are counted too.
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
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
static unsigned long blocks, locks;
#define COUNTED(counter, result, name, parameters, arguments) \
  result name parameters {                                    \
    static result(*next) parameters;                          \
    __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED);        \
    if (!next) next = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
    return next arguments;                                    \
  }
COUNTED(blocks, void*, malloc, (size_t n), (n))
COUNTED(blocks, void*, calloc, (size_t n, size_t m), (n, m))
COUNTED(blocks, void*, realloc, (void* p, size_t n), (p, n))
COUNTED(blocks, void*, aligned_alloc, (size_t a, size_t n), (a, n))
COUNTED(blocks, int, posix_memalign, (void** p, size_t a, size_t n), (p, a, n))
COUNTED(locks, int, pthread_mutex_lock, (pthread_mutex_t* m), (m))
COUNTED(locks, int, pthread_mutex_trylock, (pthread_mutex_t* m), (m))
COUNTED(locks, int, pthread_rwlock_rdlock, (pthread_rwlock_t* l), (l))
COUNTED(locks, int, pthread_rwlock_wrlock, (pthread_rwlock_t* l), (l))
COUNTED(locks, int, pthread_cond_wait, (pthread_cond_t* c, pthread_mutex_t* m), (c, m))
COUNTED(locks, int, pthread_cond_signal, (pthread_cond_t* c), (c))
COUNTED(locks, int, pthread_cond_broadcast, (pthread_cond_t* c), (c))
__attribute__((destructor)) static void say(void) { fprintf(stderr, "blocks: %lu %lu\n", blocks, locks); }
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


def taken_by(counter: Path, model: Path, runs: int, threads: int) -> tuple[int, int]:
    """How many blocks and locks a process takes that runs the model so often."""
    command = [RUNNER, "--model", model, "--runs", str(runs), "--threads", str(threads)]
    environment = os.environ | {"LD_PRELOAD": str(counter)}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
    blocks, locks = said.rpartition("blocks: ")[2].split()
    return int(blocks), int(locks)


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("name", ["mobilenet_v3_small", "ds_cnn", "unet", "vit_small", "lstm"])
def test_a_call_allocates_nothing(name, delegated, counter, tmp_path) -> None:
    model = tmp_path / "model.pte"
    partitioners = [XnnpackPartitioner(largest=True)] if delegated else []
    exported = ZOO[name]()["forward"].export()
    et.to_edge_transform_and_lower(exported, partitioner=partitioners).to_executorch().save(model)
    for threads in (1, 2):
        blocks, locks = taken_by(counter, model, 1, threads)
        assert blocks > 0 and locks > 0, "nothing was counted"
        blocks_of_more, locks_of_more = taken_by(counter, model, 11, threads)
        if threads == 1:
            assert (blocks_of_more, locks_of_more) == (blocks, locks)
        else:
            assert blocks_of_more < blocks + 10
