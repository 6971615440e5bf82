"""Which programs draw random numbers: those are compared as distributions, all others element by element."""

import pytest
import torch
from torch.nn import functional as F

from .closeness import is_random


class _Call(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self._call = call

    def forward(self, x):
        return self._call(x)


@pytest.mark.parametrize(
    ("call", "random"),
    [
        (lambda x: F.scaled_dot_product_attention(x, x, x), False),
        (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), False),
        (lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.1), True),
        (lambda x: F.dropout(x, 0.5, training=False), False),
        (lambda x: F.dropout(x, 0.5, training=True), True),
        (lambda x: F.rrelu(x, training=False), False),
        (lambda x: F.rrelu(x, training=True), True),
        (torch.rand_like, True),
        (torch.bernoulli, True),
        (lambda x: torch.cond(x.sum() > 0, torch.rand_like, torch.sin, (x,)), True),
    ],
    ids=lambda value: None if callable(value) else str(value),
)
def test_programs_that_draw(call, random):
    program = torch.export.export(_Call(call), (torch.rand(1, 2, 4, 8),))
    assert is_random(program) is random


@pytest.mark.parametrize("training", [False, True])
def test_recurrent_layers_draw_with_dropout_in_training_only(training):
    for dropout in (0.0, 0.3):
        layer = torch.nn.LSTM(4, 4, num_layers=2, dropout=dropout).train(training)
        assert is_random(torch.export.export(layer, (torch.rand(3, 1, 4),))) is (training and dropout > 0)
