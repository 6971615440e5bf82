"""A quantizer of a user's own, on torchao's interfaces alone, and models for it: what the report must understand."""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torchao.quantization.pt2e import (
    HistogramObserver,
    MinMaxObserver,
    PerChannelMinMaxObserver,
    PlaceholderObserver,
)
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation, QuantizationSpec, Quantizer

aten = torch.ops.aten
_PRODUCTS = (aten.conv2d.default, aten.linear.default, aten.matmul.default)
_RELUS = (aten.relu.default, aten.relu_.default)


class TinyQuantizer(Quantizer):
    """Static or dynamic int8 for conv2d, linear (+ relu) and matmul."""

    def __init__(self, dynamic=False, histogram=False):
        observer = PlaceholderObserver if dynamic else HistogramObserver if histogram else MinMaxObserver
        self.activation = QuantizationSpec(
            torch.int8, observer.with_args(eps=2**-12), -128, 127, torch.per_tensor_affine, is_dynamic=dynamic
        )
        self.weight = QuantizationSpec(
            torch.int8,
            PerChannelMinMaxObserver.with_args(eps=2**-12),
            -127,
            127,
            torch.per_channel_symmetric,
            ch_axis=0,
        )
        self.dynamic = dynamic

    def annotate(self, model):
        for node in model.graph.nodes:
            if node.target not in _PRODUCTS:
                continue
            inputs = {node.args[0]: self.activation}
            inputs[node.args[1]] = self.weight if node.target is not aten.matmul.default else self.activation
            users = list(node.users)
            last = users[0] if len(users) == 1 and users[0].target in _RELUS else node
            if last is not node:
                last.meta["quantization_annotation"] = QuantizationAnnotation({}, self._output(), _annotated=True)
            node.meta["quantization_annotation"] = QuantizationAnnotation(
                inputs, self._output() if last is node else None, _annotated=True
            )
        return model

    def _output(self):
        return None if self.dynamic else self.activation

    def validate(self, model):
        pass


class Net(nn.Module):
    """Convolutions with a folded batch norm and relus in place, a residual, a head: what the flows change most."""

    def __init__(self, inplace=True):
        super().__init__()
        self.inplace = inplace
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.block = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(inplace), nn.Conv2d(8, 8, 1))
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        x = F.relu(x + self.block(x), self.inplace)
        x = self.drop(x.mean((2, 3)))
        return self.head(x)


def net(inplace=True):
    torch.manual_seed(0)
    model = Net(inplace)
    model.norm.running_mean.normal_(0, 0.3)
    model.norm.running_var.uniform_(0.5, 2)
    return model.eval()


def images(count=6, batch=2):
    generator = torch.Generator().manual_seed(5)
    return [(torch.randn(batch, 3, 10, 10, generator=generator),) for _ in range(count)]


def converted(exported, data, quantizer=None):
    """What torchao's PT2E flow makes of an exported program."""
    prepared = prepare_pt2e(copy.deepcopy(exported.module()), quantizer or TinyQuantizer())
    with torch.no_grad():
        for inputs in data:
            prepared(*inputs)
    return convert_pt2e(prepared)
