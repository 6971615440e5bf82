"""Published architectures, small and with random weights, with sizes that change and with a cache of keys and
values.
"""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from executorch_py.backends.xnnpack import XnnpackPartitioner
from torch.export import Dim
from torch.utils import _pytree as pytree

import executorch_py as et

from .architectures import architecture_entries, small_language_model
from .case import Status, run_item
from .closeness import difference
from .samples import Item

#: As in whole architectures elsewhere: layers add up what they round.
LOOSER = 5.0


def _method(exported: torch.export.ExportedProgram, delegated: bool) -> Any:
    partitioners = [XnnpackPartitioner(largest=True)] if delegated else []
    buffer = et.to_edge_transform_and_lower(exported, partitioner=partitioners).to_executorch().buffer
    return et.Runtime.get().load_program(buffer).load_method("forward")


def _compare(actual: list[Any], expected: list[Any], when: object) -> None:
    assert len(actual) == len(expected), when
    for index, (mine, theirs) in enumerate(zip(actual, expected, strict=True)):
        wrong = difference(mine, theirs, LOOSER)
        assert not wrong, f"{when}, output {index}: {wrong}"


def _texts(names: list[str], batch: int, length: int) -> dict[str, torch.Tensor]:
    """Inputs of a model of text; of the first row the last token is hidden."""
    made: dict[str, torch.Tensor] = {}
    for name in names:
        shape = (batch, length if name in ("input_ids", "attention_mask") else length // 2 + 1)
        made[name] = torch.ones(shape, dtype=torch.int64) if name.endswith("_mask") else torch.randint(3, 90, shape)
    if batch > 1 and "attention_mask" in made:
        made["attention_mask"][0, -1] = 0
    return made


@pytest.mark.parametrize(
    ("name", "named"), [("transformers.distilbert", True), ("transformers.qwen3", False), ("transformers.t5", True)]
)
def test_batch_and_length_change(name: str, named: bool) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        model, _, inputs = architecture_entries()[name]()
        batch, length, shorter = (
            (Dim("batch", min=1, max=4), Dim("length", min=2, max=32), Dim("shorter", min=2, max=32))
            if named
            else (Dim.AUTO,) * 3
        )
        names = list(inputs)
        shapes = {n: {0: batch, 1: shorter if n.startswith("decoder") else length} for n in names}
        exported = torch.export.export(model, (), _texts(names, 2, 12), dynamic_shapes=shapes)
        for delegated in (False, True):
            method = _method(exported, delegated)
            for sizes in ((2, 12), (1, 5), (4, 32), (3, 7)):
                given = _texts(names, *sizes)
                expected = pytree.tree_leaves(model(**given))
                _compare(method.execute(list(given.values())), expected, sizes)


@pytest.mark.parametrize("name", ["llama", "gemma3_text"])
def test_decoding_with_a_static_cache(name: str) -> None:
    """transformers' own recipe: the cache is state of the program.

    A prompt at once, then ten tokens one by one; then again.
    """
    from transformers import GenerationConfig
    from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

    torch.manual_seed(0)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        model = small_language_model(name)
        model.generation_config = GenerationConfig(
            use_cache=True,
            cache_implementation="static",
            cache_config={"batch_size": 1, "max_cache_len": 24, "device": "cpu"},
        )
        recipe = TorchExportableModuleForDecoderOnlyLM(model, batch_size=1, max_cache_len=24, device="cpu")
        steps = Dim("steps", min=1, max=23)
        exported = recipe.export(
            input_ids=torch.randint(3, 90, (1, 7)), cache_position=torch.arange(7), strict=False,
            dynamic_shapes={"input_ids": {1: steps}, "cache_position": {0: steps}},
        )  # fmt: skip
        for delegated in (False, True):
            method = _method(exported, delegated)
            for prompt_length in (7, 4):
                tokens = torch.randint(3, 90, (1, prompt_length + 10))
                expected = model(input_ids=tokens, use_cache=False).logits
                done = 0
                for count in (prompt_length, *(1,) * 10):
                    places = torch.arange(done, done + count)
                    logits = method.execute([tokens[:, places], places])
                    _compare(logits, [expected[:, places]], f"tokens from {done} on")
                    done += count


def test_what_torch_export_refuses_goes_through_the_exporter_of_transformers() -> None:
    """The pieces of images have positions that hang on numbers in the data; the exporter computes them beforehand."""
    item = Item("architecture", "transformers.glm_image_vision", "float32", 2)
    outcomes = [outcome for _, outcome in run_item(item, seed=0) if outcome]
    assert [outcome.status for outcome in outcomes] == [Status.PASSED] * 2, outcomes
    assert all("another exporter" in outcome.detail for outcome in outcomes)
