"""Attention: spelled out as T5, Whisper and GPT do it in their eager forms, in doubles, in floats of 16 bits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import executorch_py as et

from .whole_runtime import check

LENGTH, HEADS, WIDTH = 10, 4, 8


class Attention(nn.Module):
    """[batch, length, heads * width] -> the same; ``scores`` finishes query · key before the softmax."""

    def __init__(self, finish: Callable[..., torch.Tensor], heads: int = HEADS) -> None:
        super().__init__()
        self.heads, self.finish = heads, finish
        self.query, self.key, self.value = (nn.Linear(HEADS * WIDTH, heads * WIDTH) for _ in range(3))
        self.bias = nn.Embedding(2 * LENGTH, heads)
        self.register_buffer("triangle", torch.tril(torch.ones(LENGTH, LENGTH)).view(1, 1, LENGTH, LENGTH))

    def positions(self) -> torch.Tensor:
        """T5's bias of relative positions: [1, heads, length, length]."""
        steps = torch.arange(LENGTH)
        return self.bias(steps[None] - steps[:, None] + LENGTH).permute(2, 0, 1).unsqueeze(0)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        query, key, value = (
            layer(x).view(x.shape[0], -1, self.heads, WIDTH).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        weights = self.finish(self, torch.matmul(query, key.transpose(2, 3)), mask).softmax(-1)
        return torch.matmul(weights, value).transpose(1, 2).flatten(2)


FORMS: dict[str, Callable[..., torch.Tensor]] = {
    "t5": lambda self, scores, mask: scores + self.positions() + mask,
    "t5_sum_of_masks": lambda self, scores, mask: scores + (self.positions() + mask),
    "t5_bias_first": lambda self, scores, mask: self.positions() + scores,
    "whisper": lambda self, scores, mask: scores * WIDTH**-0.5 + mask,
    "whisper_plain": lambda self, scores, mask: scores * WIDTH**-0.5,
    "gpt": lambda self, scores, mask: (scores / WIDTH**0.5).masked_fill(self.triangle == 0, -torch.inf),
    "gpt_scaled_last": lambda self, scores, mask: scores.masked_fill(self.triangle == 0, -torch.inf) * 0.25,
    "causal_added": lambda self, scores, mask: scores + torch.triu(torch.full((LENGTH, LENGTH), -torch.inf), 1),
}


def lowered(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> et.ExecutorchProgramManager:
    return et.to_edge(torch.export.export(model, inputs)).to_executorch()


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", FORMS)
def test_one_instruction(name: str, batch: int) -> None:
    torch.manual_seed(0)
    model = Attention(FORMS[name]).eval()
    hidden = torch.rand(batch, 1, 1, LENGTH) < 0.3
    hidden[..., 0] = False
    inputs = (torch.randn(batch, LENGTH, HEADS * WIDTH), hidden * torch.finfo(torch.float32).min)
    program = lowered(model, inputs)
    text = program.dump()
    assert (
        text.count("et::scaled_dot_product_attention.out(") == 1
        and "aten::_softmax" not in text
        and "aten::bmm" not in text
    )
    method = et.Runtime.get().load_program(program.buffer).load_method("forward")
    torch.testing.assert_close(method.execute(inputs)[0], model(*inputs), rtol=1e-5, atol=2e-6)


OTHERS: dict[str, Callable[..., torch.Tensor]] = {
    "finite": lambda self, scores, mask: scores.masked_fill(self.triangle == 0, -3.0),
    "negative factor": lambda self, scores, mask: -0.5 * scores.masked_fill(self.triangle == 0, torch.inf),
    "capped": lambda self, scores, mask: torch.tanh(scores) * 5 + mask,
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_something_else_stays(name: str) -> None:
    torch.manual_seed(0)
    model = Attention(OTHERS[name]).eval()
    inputs = (torch.randn(2, LENGTH, HEADS * WIDTH), torch.zeros(2, 1, 1, LENGTH))
    program = lowered(model, inputs)
    assert "scaled_dot_product_attention" not in program.dump()
    method = et.Runtime.get().load_program(program.buffer).load_method("forward")
    torch.testing.assert_close(method.execute(inputs)[0], model(*inputs), rtol=1e-5, atol=2e-6)


TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-12, torch.float16: 1e-3, torch.bfloat16: 8e-3}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("mask", [None, "bool", "numbers", "causal"])
def test_attention_of_16_bit_floats(mask, dtype):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, n, 24).to(dtype) for n in (33, 70, 70))
    options = {"is_causal": mask == "causal"}
    masks = {"bool": torch.rand(33, 70) < 0.7, "numbers": torch.randn(2, 1, 33, 70).to(dtype)}
    inputs = (q, k, v, masks[mask]) if mask in masks else (q, k, v)
    wide = [t.double() if t.is_floating_point() else t for t in inputs]
    exact = F.scaled_dot_product_attention(*wide, **options).to(dtype)
    call = lambda *inputs: F.scaled_dot_product_attention(*inputs, **options)  # noqa: E731
    check(call, *inputs, tolerance=4 * TOLERANCE[dtype], exact=exact)


@pytest.mark.parametrize("form", [None, "bool", "numbers", "causal", "nothing", "scale", "infinite"])
def test_attention_of_doubles(form):
    torch.manual_seed(0)
    for rows, keys, depth, value_depth in [(33, 70, 24, 24), (1, 300, 7, 13), (17, 513, 64, 40), (300, 5, 3, 1)]:
        q, k = (torch.randn(2, 3, n, depth, dtype=torch.float64) for n in (rows, keys))
        v = torch.randn(2, 3, keys, value_depth, dtype=torch.float64)
        masks = {
            "bool": torch.rand(rows, keys) < 0.7,
            "nothing": (torch.rand(rows, 1) < 0.5).expand(rows, keys).contiguous(),
            "numbers": torch.randn(2, 1, rows, keys, dtype=torch.float64),
            "infinite": torch.where(torch.rand(rows, keys) < 0.5, 0.0, -torch.inf).double(),
        }
        options = {"is_causal": form == "causal", "scale": 300.0 if form == "scale" else None}
        inputs = (q, k, v, masks[form]) if form in masks else (q, k, v)
        check(lambda *t, o=options: F.scaled_dot_product_attention(*t, **o), *inputs, tolerance=1e-12)
