"""The real sentence encoder, quantized: its embeddings, the order of results, its file."""

import functools
import importlib
import inspect
import pydoc_data.topics
import re

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from executorch_py.quantizer.calibration.checks import QuantizationWarning
from torch.nn import functional as F

import executorch_py as et
from examples.models import SentenceEncoder, tokenize
from executorch_py import quantizer

pytestmark = pytest.mark.slow

_MODULES = (
    "statistics",
    "random",
    "os",
    "json",
    "decimal",
    "datetime",
    "argparse",
    "socket",
    "threading",
    "logging",
    "zipfile",
)


@functools.lru_cache(maxsize=1)
def sentences() -> tuple[str, ...]:
    """200 sentences of the standard library's documentation."""
    found: dict[str, None] = {}
    for name in _MODULES:
        module = importlib.import_module(name)
        members = inspect.getmembers(module, lambda value: inspect.isclass(value) or inspect.isroutine(value))
        texts = [inspect.getdoc(value) or "" for value in (module, *(value for _, value in members))]
        for text in texts:
            for sentence in re.split(r"(?<=[.])\s+", re.sub(r"\s+", " ", text)):
                if (
                    30 < len(sentence) < 160
                    and sentence[0].isupper()
                    and sentence.endswith(".")
                    and ">>>" not in sentence
                ):
                    found[sentence] = None
    return tuple(sorted(found))[:: max(1, len(found) // 200)][:200]


def other_sentences(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Sentences of the language reference, as the encoder takes them: what it is calibrated on."""
    text = re.sub(r"[*`]|\s+", " ", " ".join(pydoc_data.topics.topics.values()))
    found = list(dict.fromkeys(re.findall(r"(?<=\. )[A-Z][a-z ,']{30,150}\.", re.sub(" +", " ", text))))
    return [tokenize(sentence) for sentence in found[:: len(found) // count][:count]]


@functools.lru_cache(maxsize=1)
def float_program() -> torch.export.ExportedProgram:
    torch.manual_seed(0)
    length = torch.export.Dim("tokens", min=2, max=64)
    inputs = tokenize("A sentence of some length, to export the model with.")
    return torch.export.export(SentenceEncoder().eval(), inputs, dynamic_shapes=({1: length}, {1: length}))


def file_of(program: torch.export.ExportedProgram) -> bytes:
    return (
        et.to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner(largest=True)]).to_executorch().buffer
    )


def embeddings(file: bytes) -> torch.Tensor:
    method = et.Runtime.get().load_program(file).load_method("forward")
    return torch.cat([method.execute(tokenize(sentence))[0] for sentence in sentences()])


@functools.lru_cache(maxsize=1)
def float_results() -> tuple[torch.Tensor, int]:
    file = file_of(float_program())
    return embeddings(file), len(file)


def mixed() -> quantizer.XNNPACKQuantizer:
    """int4, and int8 for the layers that lose most by it, as a sweep over the layers says."""
    choice = quantizer.XNNPACKQuantizer().set_global("int4_weight_only")
    for i in range(6):
        for layer in ("attention.self.value", "intermediate.dense"):
            choice.set_module_name(f"bert.encoder.layer.{i}.{layer}", "int8_weight_only")
    return choice


def nearest(similarities: torch.Tensor) -> torch.Tensor:
    """The most similar other sentence of each."""
    return similarities.clone().fill_diagonal_(-1).argmax(1)


@pytest.mark.parametrize(
    ("preset", "calibrated", "mean", "least", "tie", "swaps", "first", "size"),
    [
        ("dynamic_int8", False, 0.995, 0.98, 0.02, 0.0, 0.95, 0.27),
        ("int4_weight_only", False, 0.97, 0.95, 0.05, 0.005, 0.85, 0.22),
        ("int4_weight_only", True, 0.988, 0.972, 0.05, 0.002, 0.87, 0.22),
        ("mixed", True, 0.993, 0.987, 0.02, 0.01, 0.92, 0.24),
    ],
)
def test_encoder(preset, calibrated, mean, least, tie, swaps, first, size):
    """Of pairs among the five nearest sentences whose float similarities are more than ``tie`` apart, the part
    ``swaps`` may change places; the nearest sentence stays the same for the part ``first`` of all."""
    assert len(sentences()) == 200
    expected, float_size = float_results()
    data = other_sentences(64) if calibrated else None
    chosen = mixed() if preset == "mixed" else preset
    file = file_of(quantizer.quantize(float_program(), config_or_quantizer=chosen, calibration_data=data))
    actual = embeddings(file)
    similar = F.cosine_similarity(actual, expected)
    assert float(similar.mean()) >= mean, f"mean {float(similar.mean()):.4f}"
    assert float(similar.min()) >= least, f"least {float(similar.min()):.4f}"
    assert len(file) <= size * float_size, f"{len(file) / float_size:.3f} of the float file"
    before, after = expected @ expected.T, actual @ actual.T
    compared, swapped = 0, []
    for query in range(200):
        ranked = before[query].argsort(descending=True)[1:6]
        for place, better in enumerate(ranked[:-1]):
            for worse in ranked[place + 1 :]:
                if before[query, better] - before[query, worse] > tie:
                    compared += 1
                    if after[query, better] <= after[query, worse]:
                        swapped.append(sentences()[query])
    assert compared >= 1000 and len(swapped) <= compared * swaps, (compared, swapped)
    assert float((nearest(before) == nearest(after)).double().mean()) >= first


@pytest.mark.parametrize("observer", ["min_max", "histogram"])
def test_outliers_between_blocks_are_named(observer):
    """Plain int8 makes these layers useless (test_encoder_accuracy.py); observers of ends alone said nothing."""
    with pytest.warns(QuantizationWarning, match="few integers for nearly all values") as caught:
        config = quantizer.quantization_config(observer=observer)
        quantizer.quantize(float_program(), (), config, other_sentences(8))
    (text,) = [str(one.message) for one in caught if "few integers" in str(one.message)]
    assert re.search(r"layer\.0\.output\.dense.*modeling_bert\.py:\d+", text), text
    assert text.count("\n") < 12  # of 74 tensors: all of them sums of blocks and what goes into these
    assert all(".output" in line for line in text.splitlines()[1:])
