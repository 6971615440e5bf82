"""Control flow (with delegates in its bodies, too) and dynamic shapes: files that we write with ``compatible=True`` run
in the official runtime."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim
from torch.utils import _pytree as pytree

import executorch_py as et
from tests.python.flow.series import Case, lower, plain_eager

pytestmark = [pytest.mark.interop, pytest.mark.slow]

B = Dim("b", min=2, max=8)
X = torch.tensor([1.0, 2.0, 3.0])
ROWS = [(torch.randn(n, 4),) for n in (4, 8, 2, 5)]
WEIGHT = {"weight": torch.arange(1.0, 5.0)}


def _views(self, x):
    return x.reshape(-1), x.view(x.shape[0], 2, 2).transpose(1, 2) * 2, torch.cat([x, x + 1])


def _softmax(self, x):
    return (x @ x.t()).softmax(-1) @ x * x.shape[0]


def _cond(self, x):
    return torch.cond(x.sum() > 0, lambda a: a * self.weight, lambda a: a - self.weight, (x,))


def _cond_on_size(self, x):
    return torch.cond(x.shape[0] > 4, lambda a: a.sin(), lambda a: a.cos(), (x,)) + 1


def _map(self, xs):
    return torch_map(lambda x: torch.relu(x) * self.weight, xs)


def _loop(self, n, x):
    return while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * 2 + 1), (torch.zeros_like(n), x))


def _checked(self, x, n):
    k = n.item()
    torch._check(k >= 1)
    torch._check(k <= 4)
    return x[:k] * 2


def _cond_layers(self, x):
    return torch.cond(x.sum() > 0, lambda a: self.layer(a).relu(), lambda a: self.layer(self.layer(a)), (x,))


def _map_layers(self, xs):
    return torch_map(lambda x: self.layer(x).tanh(), xs)


LAYER = {"layer": torch.nn.Linear(4, 4)}
CASES = [
    Case("views", _views, ROWS, ({0: B},)),
    Case("softmax", _softmax, ROWS, ({0: B},)),
    Case("cond", _cond, [(torch.ones(4),), (-torch.ones(4),)], state=WEIGHT),
    Case("cond_on_size", _cond_on_size, ROWS, ({0: B},)),
    Case("map", _map, ROWS, ({0: B},), state=WEIGHT),
    Case("loop", _loop, [(torch.tensor(n), X) for n in (3, 0, 1)]),
    Case("cond_layers", _cond_layers, [(torch.ones(3, 4),), (-torch.ones(3, 4),)], state=LAYER),
    Case("map_layers", _map_layers, ROWS, ({0: B},), state=LAYER),
    Case("checked", _checked, [(torch.randn(5), torch.tensor(n)) for n in (3, 1, 4)]),
]


def test_files_of_ours_run_in_the_official_runtime(peer, tmp_path):
    for case in CASES:
        case.options = {"compatible": True}
        program = lower(case, [XnnpackPartitioner(largest=True)] if "layer" in case.state else None)
        assert ("layer" in case.state) == ("= delegate @" in program.dump())
        (tmp_path / f"{case.name}.pte").write_bytes(program.buffer)
        torch.save([list(inputs) for inputs in case.calls], tmp_path / f"{case.name}.inputs.pt")
    peer("run", tmp_path)
    wrong = {}
    for case in CASES:
        outputs = tmp_path / f"{case.name}.outputs.pt"
        if not outputs.exists():
            error = tmp_path / f"{case.name}.error"
            wrong[case.name] = error.read_text() if error.exists() else "no output"
            continue
        ours = et.Runtime.get().load_program((tmp_path / f"{case.name}.pte").read_bytes()).load_method("forward")
        for inputs, theirs in zip(case.calls, torch.load(outputs), strict=True):
            with plain_eager():
                expected = pytree.tree_leaves(case.module()(*inputs))
            torch.testing.assert_close(list(theirs), expected, check_stride=False)
            torch.testing.assert_close(ours.execute(list(inputs)), expected, check_stride=False)
    assert not wrong, wrong
