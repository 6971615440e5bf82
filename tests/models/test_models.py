"""Every model of the zoo, end to end: exported, lowered, loaded and run by the C++ runtime, against eager."""

import copy

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch.utils import _pytree as pytree

import executorch_py as et
from tests.models.zoo import ZOO

TOLERANCE = 1e-4  # max |ours - eager| / max |eager|

pytestmark = pytest.mark.slow


def _lower(methods, partitioners=()):
    exported = {name: method.export() for name, method in methods.items()}
    return et.to_edge_transform_and_lower(exported, partitioner=list(partitioners)).to_executorch()


def _assert_close(actual, expected, where):
    for index, (ours, eager) in enumerate(zip(actual, expected, strict=True)):
        assert ours.dtype == eager.dtype and ours.shape == eager.shape, f"{where}: output {index}"
        if not eager.dtype.is_floating_point:
            assert torch.equal(ours, eager), f"{where}: output {index}"
            continue
        error = (ours - eager).abs().max() / eager.abs().max()
        assert error <= TOLERANCE, f"{where}: output {index} is off by {error:.2e}"


def _eager(method):
    with torch.no_grad():
        return pytree.tree_leaves(method.module(*copy.deepcopy(method.inputs)))


@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.parametrize("name", [name for name in ZOO if name != "llama"])
def test_model(name, delegated):
    method = ZOO[name]()["forward"]
    manager = _lower({"forward": method}, [XnnpackPartitioner(largest=True)] if delegated else [])
    program = et.Runtime.get().load_program(manager.buffer)
    actual = program.load_method("forward").execute(pytree.tree_leaves(method.inputs))
    _assert_close(actual, _eager(method), name)


def test_decoder_keeps_its_cache_between_methods():
    methods = ZOO["llama"]()
    manager = _lower(methods)
    program = et.Runtime.get().load_program(manager.buffer)
    prefill, decode = program.load_method("prefill"), program.load_method("decode")
    _assert_close(prefill.execute(methods["prefill"].inputs), _eager(methods["prefill"]), "prefill")
    for position in range(8, 16):
        inputs = (torch.tensor([[position * 7 % 128]]), torch.tensor([position]))
        step = type(methods["decode"])(methods["decode"].module, inputs)
        _assert_close(decode.execute(inputs), _eager(step), f"decode at {position}")


@pytest.mark.parametrize("name", ["mobilenet_v2", "llama"])
def test_same_bytes_every_time(name):
    assert _lower(ZOO[name]()).buffer == _lower(ZOO[name]()).buffer
