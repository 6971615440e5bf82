"""Attention that a model writes out, as T5, Whisper and GPT do it in their eager forms, is one instruction and means the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

import executorch_py as et

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
