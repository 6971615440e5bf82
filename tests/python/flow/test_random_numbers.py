"""The seed that a method is loaded with, and dropout, samples and noise in a model."""

import torch
from torch import nn

import executorch_py as et


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return torch.rand_like(x), x + torch.randn(50), torch.bernoulli(x.sigmoid()), torch.randint(0, 1000, (50,))


def test_a_seed_repeats_its_numbers():
    x = torch.zeros(50)
    program = et.Runtime.get().load_program(et.to_edge(torch.export.export(Noise(), (x,))).to_executorch().buffer)

    def draws(**options: int) -> list[list[torch.Tensor]]:
        method = program.load_method("forward", **options)
        return [[y.clone() for y in method.execute((x,))] for _ in range(3)]

    first, again, other, unseeded = draws(seed=7), draws(seed=7), draws(seed=8), draws()
    for call, (mine, same, different, usual) in enumerate(zip(first, again, other, unseeded, strict=True)):
        for number, drawn in enumerate(mine):
            assert torch.equal(drawn, same[number]), (call, number)
            assert not torch.equal(drawn, different[number]) and not torch.equal(drawn, usual[number]), (call, number)
    for number in range(4):
        assert not torch.equal(first[0][number], first[1][number]), "calls of one method draw on"
