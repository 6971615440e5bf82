"""What the example backend must do, for the suite that runs over all backends (tests/conformance)."""

import torch
from executorch_py.backends.conformance import Case, Suite
from torch import nn
from torch.nn import functional as F

from .partitioner import ExamplePartitioner


class Talk(nn.Module):
    """interpolate -> convolution -> relu -> softmax: the backend takes convolution and relu as one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.interpolate(x, scale_factor=2.0)
        return F.softmax(torch.relu(self.conv(x)), dim=1)


class Many(nn.Module):
    """Parts with operators between them that the backend does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(4, 4, 3, padding=1) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for conv in self.convs:
            x = torch.sigmoid(torch.relu(conv(x)))
        return x


class Residual(nn.Module):
    """A whole block in one part."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False)
        self.second = nn.Conv2d(8, 8, 3, padding=2, dilation=2, groups=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        return torch.relu(self.second(y) + y), y


class Rejoined(nn.Module):
    """A path leaves the backend and comes back: two parts, not one."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.conv(x))
        return torch.relu(y + torch.tanh(y))


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


_DYNAMIC = {"x": {0: torch.export.Dim("batch", max=4), 2: torch.export.Dim("height", min=2, max=16)}}
_X = torch.randn(1, 4, 8, 8)

SUITE = Suite(
    backend="example",
    partitioner=ExamplePartitioner,
    tolerance=1e-5,
    cases=(
        Case("talk", Talk, (torch.randn(1, 3, 8, 8),), num_delegates=1),
        Case(
            "talk_dynamic",
            Talk,
            (torch.randn(2, 3, 8, 8),),
            num_delegates=1,
            dynamic_shapes=_DYNAMIC,
            more_inputs=((torch.randn(4, 3, 16, 8),), (torch.randn(1, 3, 2, 8),)),
        ),
        Case("many_delegates", Many, (_X,), num_delegates=4),
        Case("residual", Residual, (_X,), num_delegates=1),
        Case("rejoined", Rejoined, (_X,), num_delegates=2),
        Case("relu_of_vector", lambda: Call(torch.relu), (torch.randn(7),), num_delegates=1),
        Case("empty_batch", lambda: Call(torch.relu), (torch.randn(0, 3),), num_delegates=1),
    ),
    refused=(
        Case("double", lambda: Call(torch.relu), (_X.double(),), num_delegates=0),
        Case("conv1d", lambda: nn.Conv1d(4, 4, 3), (torch.randn(1, 4, 8),), num_delegates=0),
        Case("transposed", lambda: nn.ConvTranspose2d(4, 4, 2), (_X,), num_delegates=0),
        Case("computed_filter", lambda: Call(F.conv2d), (_X, torch.randn(2, 4, 3, 3)), num_delegates=0),
        Case("broadcast", lambda: Call(torch.add), (_X, torch.randn(8)), num_delegates=0),
        Case("number", lambda: Call(lambda x: x + 1), (_X,), num_delegates=0),
    ),
)
