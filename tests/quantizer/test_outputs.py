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


def test_only_what_leaves_the_program_keeps_its_ends():
    kept = {
        name: observer.keeps_ends for name, observer in observers(made(nn.Identity()), (torch.randn(2, 32),)).items()
    }
    assert [name for name, keeps in kept.items() if keeps] == ["linear_1"]
    assert len(kept) == 3
