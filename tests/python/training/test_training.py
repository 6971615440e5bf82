"""Training step by step beside eager PyTorch: losses, gradients, parameters and running statistics."""

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch import nn
from torch.export.experimental import _export_forward_backward

import executorch_py as et
from executorch_py.errors import InvalidArgumentError, InvalidStateError, NotFoundError, NotSupportedError
from executorch_py.training import SGD, AdamW, TrainingModule
from tests.python.training.models import MODELS, Cnn, Mlp, exported, made


def _close(ours, theirs, what):
    torch.testing.assert_close(ours, theirs.detach(), rtol=2e-4, atol=2e-5, msg=lambda text: f"{what}: {text}")


@pytest.mark.parametrize("rule", ["sgd", "adamw"])
@pytest.mark.parametrize("kind", MODELS)
def test_each_step_is_eagers(kind, rule):
    model, module, batches = made(kind)
    if rule == "sgd":
        theirs = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)
        ours = SGD(module.named_parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3, nesterov=True)
    else:
        theirs = torch.optim.AdamW(model.parameters(), lr=3e-3, amsgrad=True)
        ours = AdamW(module.named_parameters(), lr=3e-3, amsgrad=True)
    for step, batch in enumerate(batches):
        outputs = module.forward_backward("forward", batch)
        expected = model(*batch)
        expected = expected if isinstance(expected, tuple) else (expected,)
        assert len(outputs) == len(expected)
        for i, (output, value) in enumerate(zip(outputs, expected, strict=True)):
            _close(output, value, f"step {step}, output {i}")
        theirs.zero_grad()
        expected[0].backward()
        gradients = module.named_gradients()
        assert set(gradients) == {name for name, _ in model.named_parameters()}
        for name, parameter in model.named_parameters():
            _close(gradients[name], parameter.grad, f"step {step}, gradient of {name}")
        theirs.step()
        ours.step(gradients)
        for name, parameter in model.named_parameters():
            _close(module.named_parameters()[name], parameter, f"step {step}, {name}")
        for name, buffer in model.named_buffers():
            _close(module.named_state()[name], buffer, f"step {step}, {name}")


def test_the_program_describes_itself_as_published():
    model, batch = Mlp(), Mlp.batch()
    program = et.Runtime.get().load_program(exported(model, batch))
    names = [name for name, _ in model.named_parameters()]
    assert program.load_method("__et_training_gradients_index_forward").execute([]) == [2]
    assert program.load_method("__et_training_parameters_index_forward").execute([]) == [2 + len(names)]
    assert program.load_method("__et_training_fqn_forward").execute([]) == names
    outputs = program.load_method("forward").execute(batch)
    assert len(outputs) == 2 + 2 * len(names)
    for output, parameter in zip(outputs[2 + len(names) :], model.parameters(), strict=True):
        torch.testing.assert_close(output, parameter.detach())


@pytest.mark.parametrize("partitioners", [(), (XnnpackPartitioner,)])
def test_inference_in_the_same_program_sees_the_trained_parameters(partitioners):
    torch.manual_seed(0)
    model, batch = Cnn().train(), Cnn.batch()
    joint = _export_forward_backward(torch.export.export(model, batch))
    methods = {"forward": joint, "infer": torch.export.export(model.eval(), batch)}
    delegates = [partitioner() for partitioner in partitioners]
    program = et.to_edge_transform_and_lower(methods, partitioner=delegates).to_executorch()
    module = TrainingModule.load(program.buffer)
    before = module.run_method("infer", batch)[0]
    torch.testing.assert_close(before, model(*batch)[0].detach())
    optimizer, theirs = SGD(module.named_parameters(), lr=0.5), torch.optim.SGD(model.train().parameters(), lr=0.5)
    for _ in range(3):
        module.forward_backward("forward", batch)
        optimizer.step(module.named_gradients())
        theirs.zero_grad()
        model(*batch)[0].backward()
        theirs.step()
    after = module.run_method("infer", batch)[0]
    torch.testing.assert_close(after, model.eval()(*batch)[0].detach(), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(before, after)


def test_frozen_parameters_have_no_gradients_and_stay():
    model = Mlp()
    model.hidden.requires_grad_(False)
    batch = Mlp.batch()
    module = TrainingModule.load(exported(model, batch))
    module.forward_backward("forward", batch)
    assert set(module.named_gradients()) == set(module.named_parameters()) == {"out.weight", "out.bias"}


def test_parameters_with_one_gradient_between_them():
    class Sum(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.ones(3))

        def forward(self, x):
            return ((self.a + self.b * 1.0 - x) ** 2).sum()

    model, x = Sum(), torch.tensor([1.0, 2.0, 3.0])
    module = TrainingModule.load(exported(model, (x,)))
    (loss,) = module.forward_backward("forward", (x,))
    model(x).backward()
    torch.testing.assert_close(loss, model(x).detach())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(module.named_gradients()[name], parameter.grad)


def test_any_batch_size():
    model, batch = Mlp(), Mlp.batch()
    batch_dim = torch.export.Dim("batch", min=2, max=16)
    module = TrainingModule.load(exported(model, batch, dynamic_shapes=({0: batch_dim}, {0: batch_dim})))
    for size in (2, 16, 5):
        x, y = torch.randn(size, 6), torch.randn(size, 2)
        loss, _ = module.forward_backward("forward", (x, y))
        model.zero_grad()
        expected, _ = model(x, y)
        expected.backward()
        _close(loss, expected, f"batch of {size}")
        for name, parameter in model.named_parameters():
            _close(module.named_gradients()[name], parameter.grad, f"batch of {size}, {name}")


def test_views_outlive_the_module_and_gradients_keep_their_place():
    _, module, batches = made(Mlp)
    module.forward_backward("forward", batches[0])
    parameter, gradient = module.named_parameters()["out.bias"], module.named_gradients()["out.bias"]
    first = gradient.clone()
    module.forward_backward("forward", batches[1])
    assert not torch.equal(first, gradient)
    torch.testing.assert_close(gradient, module.named_gradients()["out.bias"])
    del module
    parameter += 1
    assert parameter.shape == (2,)


def test_errors_in_words():
    model, module, batches = made(Mlp)
    with pytest.raises(InvalidStateError, match="before its first execution"):
        module.named_gradients()
    with pytest.raises(NotFoundError, match="backward"):
        module.forward_backward("backward", batches[0])
    inference = et.to_edge(torch.export.export(model.eval(), batches[0])).to_executorch()
    with pytest.raises(InvalidArgumentError, match=r"returns no gradients; export the model with"):
        TrainingModule.load(inference.buffer).named_parameters()
    with pytest.raises(InvalidArgumentError, match=r"takes 2 inputs"):
        module.forward_backward("forward", batches[0][:1])
    x, y = batches[0]
    with pytest.raises(NotSupportedError, match="does not require gradients"):
        exported(model, (x.requires_grad_(), y))
