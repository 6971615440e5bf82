"""Whole models whose shapes, control flow or state move: generation with a cache, beam search, ragged text, U-Net,
RNN.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

import executorch_py as et
from tests.models import zoo


def _load(programs):
    """Methods by name: exported, lowered and loaded as one program."""
    program = et.Runtime.get().load_program(et.to_edge(programs).to_executorch().buffer)
    return {name: program.load_method(name) for name in programs}


def _same(method, eager, *inputs, tolerance=1e-4):
    with torch.no_grad():
        expected = eager(*copy.deepcopy(inputs))
    expected = list(expected) if isinstance(expected, (tuple, list)) else [expected]
    actual = method.execute([tensor.clone() for tensor in inputs])
    assert [tuple(tensor.shape) for tensor in actual] == [tuple(tensor.shape) for tensor in expected]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, check_stride=False)
    return actual


@pytest.mark.slow
def test_generation_with_a_static_cache():
    """A Llama of transformers with its StaticCache: a prompt of any length, then token by token, twice."""
    transformers = pytest.importorskip("transformers")
    from transformers.integrations.executorch import TorchExportableModuleWithStaticCache

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=32,
    )  # fmt: skip
    config._attn_implementation = "sdpa"
    model = transformers.LlamaForCausalLM(config).eval()
    model.generation_config.update(use_cache=True, cache_implementation="static", max_length=32)
    wrapped = TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=32).eval()
    length = Dim("length", min=2, max=16)
    tokens, positions = torch.randint(0, 64, (1, 5)), torch.arange(5)
    kwargs = {"input_ids": tokens, "cache_position": positions}
    with torch.no_grad():
        exported = torch.export.export(
            wrapped, (), kwargs, dynamic_shapes={"input_ids": {1: length}, "cache_position": {0: length}}
        )
        step = torch.export.export(wrapped, (), {"input_ids": tokens[:, :1], "cache_position": torch.tensor([5])})
    methods = _load({"prefill": exported, "decode": step})
    for prompt in (torch.randint(0, 64, (1, 9)), torch.randint(0, 64, (1, 3))):
        (logits,) = methods["prefill"].execute([prompt, torch.arange(prompt.shape[1])])
        sequence = prompt
        for _ in range(6):
            with torch.no_grad():
                expected = model(sequence, use_cache=False).logits
            torch.testing.assert_close(logits[:, -1], expected[:, -1], rtol=1e-3, atol=1e-4)
            token = logits[:, -1:].argmax(-1)
            sequence = torch.cat([sequence, token], 1)
            (logits,) = methods["decode"].execute([token, torch.tensor([sequence.shape[1] - 1])])


class BeamSearch(nn.Module):
    """Keeps the best sequences of a small language model until all of them ended or ``steps`` are done."""

    def __init__(self, vocabulary: int = 12, beams: int = 3, length: int = 8) -> None:
        super().__init__()
        self.vocabulary, self.beams, self.length = vocabulary, beams, length
        self.embedding = nn.Embedding(vocabulary, 16)
        self.mix, self.head = nn.Linear(16, 16), nn.Linear(16, vocabulary)

    def forward(self, first: torch.Tensor, steps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = torch.zeros(self.beams, self.length, dtype=torch.int64)
        tokens = torch.where(torch.arange(self.length) == 0, first, tokens)
        scores = torch.arange(self.beams) * -1e9

        def condition(step, tokens, scores):
            last = tokens.gather(1, (step - 1).clamp(min=0).expand(self.beams, 1))
            return (step < steps) & (last != 1).any()

        def body(step, tokens, scores):
            last = tokens.gather(1, (step - 1).expand(self.beams, 1)).squeeze(1)
            hidden = torch.tanh(self.mix(self.embedding(last) + self.embedding(tokens).mean(1)))
            ended = (last == 1).unsqueeze(1)
            only_end = torch.where(torch.arange(self.vocabulary) == 1, 0.0, -1e9)
            log_probs = torch.where(ended, only_end, self.head(hidden).log_softmax(-1))
            best, index = (scores.unsqueeze(1) + log_probs).view(-1).topk(self.beams)
            parents, words = index // self.vocabulary, index % self.vocabulary
            here = torch.arange(self.length) == step
            return step + 1, torch.where(here, words.unsqueeze(1), tokens[parents]), best

        _, tokens, scores = while_loop(condition, body, (torch.tensor(1), tokens, scores))
        return tokens, scores


def test_beam_search():
    torch.manual_seed(3)
    model = BeamSearch().eval()
    with torch.no_grad():
        exported = torch.export.export(model, (torch.tensor(2), torch.tensor(8)))
    method = _load({"forward": exported})["forward"]
    for first, steps in ((2, 8), (5, 3), (7, 1), (3, 8)):
        _same(method, model, torch.tensor(first), torch.tensor(steps))


class RaggedText(nn.Module):
    """Sentences of different lengths: attention over the valid tokens, their mean, and the flat list of them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(30, 16)
        self.layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, ...]:
        valid = torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)
        hidden = self.layer(self.embedding(tokens), src_key_padding_mask=~valid)
        weights = valid.unsqueeze(2).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        flat = hidden[valid]
        owner = torch.repeat_interleave(torch.arange(tokens.shape[0]), lengths)
        return self.head(mean), self.head(flat).argmax(-1), owner


def test_ragged_text():
    torch.manual_seed(0)
    model = RaggedText().train()  # the fast path of evaluation is no operator that exports
    batch, length = Dim("batch", min=2, max=6), Dim("length", min=2, max=12)

    def inputs(b, t):
        return torch.randint(0, 30, (b, t)), torch.randint(1, t + 1, (b,))

    with torch.no_grad():
        exported = torch.export.export(model, inputs(3, 7), dynamic_shapes=({0: batch, 1: length}, {0: batch}))
    method = _load({"forward": exported})["forward"]
    for b, t in ((3, 7), (6, 12), (2, 2), (4, 9)):
        _same(method, model, *inputs(b, t))


def test_unet_of_any_batch_and_size():
    model = zoo.unet()["forward"].module
    shapes = ({0: Dim("batch", min=1, max=3), 2: 4 * Dim("h", min=2, max=12), 3: 4 * Dim("w", min=2, max=12)},)
    exported = torch.export.export(model, (torch.rand(2, 3, 16, 24),), dynamic_shapes=shapes)
    method = _load({"forward": exported})["forward"]
    for size in ((2, 16, 24), (3, 48, 48), (1, 8, 8), (1, 40, 12)):
        _same(method, model, torch.rand(size[0], 3, *size[1:]))
    with pytest.raises(et.InvalidArgumentError, match=r"input 0.*dimension 2"):
        method.execute([torch.rand(1, 3, 18, 16)])


class Recurrent(nn.Module):
    """A GRU cell over time by scan, backwards and forwards, with the rows that have ended left as they were."""

    def __init__(self) -> None:
        super().__init__()
        self.forwards, self.backwards = nn.GRUCell(6, 8), nn.GRUCell(6, 8)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        alive = (torch.arange(x.shape[0]).unsqueeze(1) < lengths).unsqueeze(2)
        start = x.new_zeros(x.shape[1], 8)

        def run(cell, reverse):
            def step(h, items):
                item, on = items
                h = torch.where(on, cell(item, h), h)
                return h, h.clone()

            return scan(step, start, (x, alive), reverse=reverse)

        last, left = run(self.forwards, False)
        first, right = run(self.backwards, True)
        return self.head(torch.cat([left, right], 2)), F.softmax(torch.cat([last, first], 1), -1)


def test_recurrent_by_scan():
    torch.manual_seed(0)
    model = Recurrent().eval()
    time, batch = Dim("time", min=2, max=10), Dim("batch", min=2, max=5)

    def inputs(t, b):
        return torch.randn(t, b, 6), torch.randint(1, t + 1, (b,))

    with torch.no_grad():
        exported = torch.export.export(model, inputs(4, 3), dynamic_shapes=({0: time, 1: batch}, {0: batch}))
    method = _load({"forward": exported})["forward"]
    for t, b in ((4, 3), (10, 5), (2, 2), (7, 4)):
        _same(method, model, *inputs(t, b))


class Greedy(nn.Module):
    """Generation inside the program: the loop, the cache and the choice of tokens run without the caller."""

    def __init__(self, length: int = 12) -> None:
        super().__init__()
        self.length = length
        self.embedding = nn.Embedding(20, 16)
        self.key, self.value, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 20)

    def forward(self, first: torch.Tensor, count: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        def condition(step, token, text, keys, values):
            return (step < count) & (token != 0)

        def body(step, token, text, keys, values):
            x = self.embedding(token)
            here = (torch.arange(self.length) == step).unsqueeze(1)
            keys, values = torch.where(here, self.key(x), keys), torch.where(here, self.value(x), values)
            scores = (keys @ x / 4).masked_fill(torch.arange(self.length) > step, -torch.inf)
            token = self.head(scores.softmax(0) @ values).argmax()
            return step + 1, token, torch.where(here.squeeze(1), token, text), keys, values

        empty = torch.zeros(self.length, 16)
        step, _, text, _, _ = while_loop(
            condition, body, (torch.tensor(0), first, torch.zeros(self.length, dtype=torch.int64), empty, empty.clone())
        )
        return text, step


def test_greedy_generation_in_one_method():
    torch.manual_seed(1)
    model = Greedy().eval()
    with torch.no_grad():
        exported = torch.export.export(model, (torch.tensor(3), torch.tensor(4)))
    method = _load({"forward": exported})["forward"]
    for first, count in ((3, 4), (7, 12), (5, 0), (0, 5)):
        _same(method, model, torch.tensor(first), torch.tensor(count))
