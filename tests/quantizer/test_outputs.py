"""Results whose largest numbers are what counts keep them; the rest of a model has the range that loses least."""

import pytest
import torch
from executorch_py.quantizer import HistogramObserver
from torch import nn

from executorch_py import quantizer

WORDS = 50_000


class Words(nn.Module):
    """Scores of words, as a language model ends; `end` is what it does with them."""

    def __init__(self, end):
        super().__init__()
        self.hidden = nn.Linear(32, 64)
        self.scores = nn.Linear(64, WORDS)
        self.end = end

    def forward(self, x):
        return self.end(self.scores(self.hidden(x).relu()))


ENDS = {
    "scores": (lambda scores: scores, lambda result: result.argmax(-1)),
    "moved": (lambda scores: scores.unsqueeze(1).transpose(1, 2), lambda result: result.argmax(1).squeeze(1)),
    "cast": (lambda scores: (scores / 0.7).double(), lambda result: result.argmax(-1)),
    "capped": (lambda scores: (scores / 30).tanh() * 30, lambda result: result.argmax(-1)),
    "log_softmax": (lambda scores: scores.log_softmax(-1), lambda result: result.argmax(-1)),
    "argmax": (lambda scores: scores.argmax(-1), lambda result: result),
    "topk": (lambda scores: scores.topk(3)[1].float(), lambda result: result[:, 0].long()),
    "in a list": (lambda scores: [scores, scores[:, :5]], lambda result: result[0].argmax(-1)),
}


def made(end):
    torch.manual_seed(0)
    return Words(end).eval()


@pytest.mark.parametrize("end", ENDS)
def test_the_largest_score_stays_the_largest(end):
    function, best = ENDS[end]
    model = made(function)
    samples = [(torch.randn(64, 32),) for _ in range(2)]
    quantized = quantizer.quantize(model, samples[0], "static_int8", samples).module()
    fresh = torch.randn(64, 32)
    agreement = float((best(quantized(fresh)) == best(model(fresh))).float().mean())
    # Scores of 50,000 words lie near each other: 0.86 with the ends, 0.64 without.
    assert agreement > 0.8


def observers(model, sample):
    prepared = quantizer.prepare(model, sample, "static_int8")
    calls = [node for node in prepared.graph.nodes if node.op == "call_module"]
    found = [(node, prepared.get_submodule(node.target)) for node in calls]
    return {node.args[0].name: module for node, module in found if isinstance(module, HistogramObserver)}


class Handed(nn.Module):
    """Hands out what other layers read as well, a result of its own, and one that takes the size of another."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        hidden = self.first(x)
        sized = self.second(hidden).relu()
        return hidden, self.last(sized), self.last(hidden)[:1].expand_as(sized)


def kept(model, width):
    found = observers(model.eval(), (torch.randn(2, width),))
    assert len(found) >= 3
    return [name for name, observer in found.items() if observer.keeps_ends]


def test_only_what_leaves_the_program_keeps_its_ends():
    assert kept(made(nn.Identity()), 32) == ["linear_1"]
    assert kept(made(lambda scores: scores - scores.amax(-1, keepdim=True)), 32) == []
    names = kept(Handed(), 8)
    assert "linear" not in names and "relu" not in names
    assert {"linear_2", "linear_3"} <= set(names)
