"""Models to train, each a module that returns its loss first, and what they are called with."""

import copy

import torch
from torch import nn
from torch.export.experimental import _export_forward_backward
from torch.nn import functional as F

import executorch_py as et
from executorch_py.training import TrainingModule


class Mlp(nn.Module):
    """[batch, 6] and targets [batch, 2]."""

    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(6, 16), nn.Linear(16, 2)

    def forward(self, x, y):
        prediction = self.out(F.gelu(self.hidden(x)))
        return F.mse_loss(prediction, y), prediction.detach()

    @staticmethod
    def batch():
        return torch.randn(8, 6), torch.randn(8, 2)


class Cnn(nn.Module):
    """Images [batch, 2, 10, 10] and labels [batch]: strides, groups, batch norm, two kinds of pool."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(2, 8, 3, padding=1, bias=False)  # the norm takes a bias away
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 8, 3, stride=2, groups=4, bias=False)
        self.out = nn.Linear(8, 4)

    def forward(self, x, labels):
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        x = F.adaptive_avg_pool2d(F.silu(self.second(x)), 1).flatten(1)
        logits = self.out(x)
        return F.cross_entropy(logits, labels), logits.detach().argmax(1)

    @staticmethod
    def batch():
        return torch.randn(6, 2, 10, 10), torch.randint(0, 4, (6,))


class Upsampler(nn.Module):
    """A transposed convolution and an average pool: [batch, 3, 5] to targets [batch, 4, 5]."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(3, 4, 3, stride=2, padding=1, output_padding=1)
        self.scale = nn.Parameter(torch.ones(4, 1))

    def forward(self, x, y):
        x = F.avg_pool1d(torch.tanh(self.up(x)) * self.scale, 2)
        return F.smooth_l1_loss(x, y)

    @staticmethod
    def batch():
        return torch.randn(3, 3, 5), torch.randn(3, 4, 5)


class Transformer(nn.Module):
    """Token ids [batch, time]: predicts the next one with one layer of attention; the embedding is the classifier,
    too.
    """

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.attention = nn.MultiheadAttention(8, 2, bias=False, batch_first=True)  # a bias of keys does nothing
        self.norms = nn.ModuleList([nn.LayerNorm(8), nn.LayerNorm(8)])
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, ids):
        x = self.embedding(ids[:, :-1])
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, attn_mask=mask, need_weights=False)[0]
        x = x + self.down(F.relu(self.up(self.norms[1](x))))
        logits = x @ self.embedding.weight.T
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

    @staticmethod
    def batch():
        return (torch.randint(0, 11, (3, 6)),)


MODELS = (Mlp, Cnn, Upsampler, Transformer)


def exported(model, batch, **options):
    """The bytes of a program with the training method ``forward``."""
    joint = _export_forward_backward(torch.export.export(copy.deepcopy(model).train(), batch, **options))
    return et.to_edge(joint).to_executorch().buffer


def made(kind, seed=0):
    """A model, its training module and its batches, all of them different."""
    torch.manual_seed(seed)
    model = kind().train()
    batches = [kind.batch() for _ in range(6)]
    return model, TrainingModule.load(exported(model, batches[0])), batches
