"""Recipes: the pages on them, on quantization-aware training between two halves of one, and on stages."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.export import Dim, export

from .shared import PICTURE, XY, Image, Linears, Sums, X, exported, run, same, use, xnnpack


def _kind() -> Any:
    return use("backends.xnnpack.recipes", "XNNPackRecipeType")


def _quantizer(**options: Any) -> Any:
    quantizer, config = use(
        "backends.xnnpack.quantizer.xnnpack_quantizer", "XNNPACKQuantizer", "get_symmetric_quantization_config"
    )
    return quantizer().set_global(config(**options))


def recipe_by_type():
    export_fn, recipe = use("export", "export", "ExportRecipe")
    model = Image().eval()
    session = export_fn(model=model, example_inputs=[PICTURE], export_recipe=recipe.get_recipe(_kind().FP32))
    same(session.run_method("forward", PICTURE)[0], model(*PICTURE))
    assert isinstance(session.get_pte_buffer(), bytes)
    with tempfile.TemporaryDirectory() as folder:
        session.save_to_pte(os.path.join(folder, "model"))
        assert os.listdir(folder) == ["model.pte"]


def recipe_quantized():
    export_fn, recipe, kind = *use("export", "export", "ExportRecipe"), _kind()
    model = Image().eval()
    for one in (
        kind.PT2E_INT8_STATIC_PER_CHANNEL,
        kind.PT2E_INT8_STATIC_PER_TENSOR,
        kind.PT2E_INT8_DYNAMIC_PER_CHANNEL,
    ):
        session = export_fn(model=copy.deepcopy(model), example_inputs=[PICTURE], export_recipe=recipe.get_recipe(one))
        same(session.run_method("forward", PICTURE)[0], model(*PICTURE), 0.1)


def _wide() -> tuple:
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32)).eval(), (torch.randn(3, 64),)


def recipe_int4():
    export_fn, recipe, kind = *use("export", "export", "ExportRecipe"), _kind()
    model, x = _wide()
    chosen = recipe.get_recipe(kind.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_CHANNEL)
    session = export_fn(model=copy.deepcopy(model), example_inputs=[x], export_recipe=chosen)
    same(session.run_method("forward", x)[0], model(*x), 0.5)


def recipe_int4_in_groups():
    """The keyword of the type is the number of weights with a common scale."""
    export_fn, recipe, kind = *use("export", "export", "ExportRecipe"), _kind()
    model, x = _wide()
    chosen = recipe.get_recipe(kind.TORCHAO_INT8_DYNAMIC_ACT_INT4_WEIGHT_PER_TENSOR, group_size=32)
    session = export_fn(model=copy.deepcopy(model), example_inputs=[x], export_recipe=chosen)
    same(session.run_method("forward", x)[0], model(*x), 0.5)


def recipe_of_your_own():
    export_fn, recipe, lowering, stage = use("export", "export", "ExportRecipe", "LoweringRecipe", "StageType")
    order = []
    mine = recipe(
        name="mine",
        aten_transform_passes=[lambda name, ep: (order.append(name), ep)[1]],
        lowering_recipe=lowering(partitioners=[xnnpack()()]),
        pipeline_stages=[stage.TORCH_EXPORT, stage.TO_EDGE, stage.TO_BACKEND, stage.TO_EXECUTORCH],
    )
    session = export_fn(model=Linears().eval(), example_inputs=[X], export_recipe=mine)
    assert order == ["forward"] and session.get_exported_program() is not None
    assert session.get_edge_program_manager().methods == {"forward"}


def recipes_combined():
    recipe, kind = use("export", "ExportRecipe"), _kind()
    combined = recipe.combine([recipe.get_recipe(kind.FP32), recipe.get_recipe(kind.FP32)], "both")
    assert combined.name == "both" and len(combined.lowering_recipe.partitioners) == 2


def recipe_registry():
    registry, kind = use("export", "recipe_registry"), _kind()
    assert "xnnpack" in registry.list_backends() and kind.FP32 in registry.get_supported_recipes("xnnpack")


def recipe_provider_of_your_own():
    names = use("export", "BackendRecipeProvider", "RecipeType", "ExportRecipe", "LoweringRecipe", "recipe_registry")
    provider_base, type_base, recipe, lowering, registry = names

    class Kinds(type_base):
        FAST = "fast"
        SMALL = "small"

        @classmethod
        def get_backend_name(cls) -> str:
            return "of_these_steps"

    class Provider(provider_base):
        @property
        def backend_name(self) -> str:
            return "of_these_steps"

        def get_supported_recipes(self) -> Sequence[Any]:
            return [Kinds.FAST]

        def create_recipe(self, recipe_type, **kwargs):
            if recipe_type != Kinds.FAST:
                return None
            made = lowering(partitioners=[xnnpack()()])
            return recipe(name=f"{recipe_type.value} {kwargs['level']}", lowering_recipe=made)

    registry.register_backend_recipe_provider(Provider())
    assert recipe.get_recipe(Kinds.FAST, level=3).name == "fast 3"
    assert registry.create_recipe(Kinds.SMALL, "of_these_steps") is None
    try:
        recipe.get_recipe(Kinds.SMALL)
    except ValueError:
        return
    raise AssertionError("a recipe that the provider has not was made")


def recipe_of_a_quantizer():
    names = use("export", "export", "ExportRecipe", "QuantizationRecipe", "LoweringRecipe")
    export_fn, recipe, quantization, lowering = names
    model = Image().eval()
    mine = recipe(
        name="int8",
        quantization_recipe=quantization(quantizers=[_quantizer(is_per_channel=True)]),
        lowering_recipe=lowering(partitioners=[xnnpack()()]),
    )
    examples = [(torch.randn(1, 3, 8, 8),) for _ in range(4)]
    session = export_fn(model=model, example_inputs=examples, export_recipe=mine)
    same(session.run_method("forward", examples[0])[0], model(*examples[0]), 0.1)
    targets = [str(n.target) for n in session.get_exported_program().graph.nodes]
    assert any("quantize_per_tensor" in one for one in targets)


def recipe_of_torchao():
    """The configuration is for the modules that the filter lets pass; the caller's model stays as it was."""
    from torchao.quantization.granularity import PerAxis
    from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig

    names = use("export", "export", "ExportRecipe", "QuantizationRecipe", "LoweringRecipe", "AOQuantizationConfig")
    export_fn, recipe, quantization, lowering, of_torchao = names
    model, x = _wide()
    asked = []
    config = of_torchao(
        Int8DynamicActivationIntxWeightConfig(weight_dtype=torch.int4, weight_granularity=PerAxis(0)),
        filter_fn=lambda module, name: (asked.append(name), isinstance(module, nn.Linear) and name == "0")[1],
    )
    mine = recipe(
        quantization_recipe=quantization(ao_quantization_configs=[config]),
        lowering_recipe=lowering(partitioners=[xnnpack()()]),
    )
    session = export_fn(model=model, example_inputs=[x], export_recipe=mine)
    same(session.run_method("forward", x)[0], model(*x), 0.5)
    assert "2" in asked and type(model[0].weight.data) is torch.Tensor


def recipe_of_several_methods():
    export_fn, recipe = use("export", "export", "ExportRecipe")
    models, inputs = {"encode": Linears().eval(), "decode": Sums()}, {"encode": [X], "decode": [XY]}
    chosen = recipe.get_recipe(_kind().FP32)
    session = export_fn(model=models, example_inputs=inputs, export_recipe=chosen)
    same(session.run_method("decode", XY)[0], Sums()(*XY))
    same(session.run_method("encode", X)[0], models["encode"](*X))
    assert session.get_executorch_program_manager().methods == {"encode", "decode"}
    assert session.get_example_input("decode") is XY


def recipe_with_dynamic_shapes():
    export_fn, recipe = use("export", "export", "ExportRecipe")
    model, shapes = Linears().eval(), {"x": {0: Dim("n", min=1, max=9)}}
    chosen = recipe.get_recipe(_kind().FP32)
    session = export_fn(model=model, example_inputs=[X], export_recipe=chosen, dynamic_shapes=shapes)
    for rows in (1, 5, 9):
        x = torch.randn(rows, 8)
        same(session.run_method("forward", (x,))[0], model(x))


def recipe_with_constant_methods():
    export_fn, recipe = use("export", "export", "ExportRecipe")
    chosen = recipe.get_recipe(_kind().FP32)
    session = export_fn(
        model=Linears().eval(),
        example_inputs=[X],
        export_recipe=chosen,
        constant_methods={"get_size": 7},
    )
    module = use("extension.pybindings.portable_lib", "_load_for_executorch_from_buffer")(session.get_pte_buffer())
    assert module.run_method("get_size", ()) == [7]


def recipe_with_etrecord():
    export_fn, recipe = use("export", "export", "ExportRecipe")
    chosen = recipe.get_recipe(_kind().FP32)
    session = export_fn(model=Linears().eval(), example_inputs=[X], export_recipe=chosen, generate_etrecord=True)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.etrecord")
        session.get_etrecord().save(path)
        assert use("devtools", "parse_etrecord")(path).edge_dialect_program is not None


def recipe_session_of_steps():
    """A session that is made first and run later; asking before it ran is refused."""
    session_class, recipe, stage = use("export", "ExportSession", "ExportRecipe", "StageType")
    session = session_class(model=Linears().eval(), example_inputs=[X], export_recipe=recipe.get_recipe(_kind().FP32))
    try:
        session.get_executorch_program_manager()
    except RuntimeError:
        pass
    else:
        raise AssertionError("a program before the session ran")
    session.export()
    made = session.get_stage_artifacts()
    assert list(made) == [
        stage.SOURCE_TRANSFORM,
        stage.QUANTIZE,
        stage.TORCH_EXPORT,
        stage.TO_EDGE_TRANSFORM_AND_LOWER,
        stage.TO_EXECUTORCH,
    ]
    session.print_delegation_info()
    assert made[stage.TORCH_EXPORT].data["forward"] is session.get_exported_program()


def recipe_stages_in_a_wrong_order():
    export_fn, recipe, stage = use("export", "export", "ExportRecipe", "StageType")
    for stages in (
        [stage.TO_EXECUTORCH, stage.TORCH_EXPORT],
        [stage.TORCH_EXPORT, stage.TO_EXECUTORCH],
        [stage.TO_BACKEND, stage.TO_EXECUTORCH],
    ):
        mine = recipe(name="wrong", pipeline_stages=stages)
        try:
            export_fn(model=Linears().eval(), example_inputs=[X], export_recipe=mine)
        except ValueError:
            continue
        raise AssertionError(f"{stages} were taken")


def recipe_stage_of_your_own():
    """A class of its own in the place of a stage; the session asks it what may stand before it."""
    names = use("export", "ExportSession", "ExportRecipe", "StageType")
    session_class, recipe, kind = names
    stage_base = use("export.stages", "Stage")
    called = []

    class Mine(stage_base):
        @property
        def stage_type(self):
            return kind.SOURCE_TRANSFORM

        @property
        def valid_predecessor_stages(self):
            return []

        @property
        def can_start_pipeline(self):
            return True

        def run(self, artifact):
            called.append(sorted(artifact.data))
            self._artifact = artifact.copy_with_new_data({name: Linears().eval() for name in artifact.data})

    session = session_class(model=Image().eval(), example_inputs=[X], export_recipe=recipe.get_recipe(_kind().FP32))
    session.register_stage(kind.SOURCE_TRANSFORM, Mine())
    assert isinstance(session.get_registered_stage(kind.SOURCE_TRANSFORM), Mine)
    session.export()
    assert called == [["forward"]] and session.run_method("forward", X)[0].shape == (2, 4)


def recipe_passes_of_lowering():
    names = use("export", "export", "ExportRecipe", "LoweringRecipe")
    export_fn, recipe, lowering = names
    result, called = use("exir.pass_base", "PassResult"), []

    def note(graph_module):
        called.append(1)
        return result(graph_module, False)

    def passes_for(method, program):
        called.append(method)
        return [note]

    mine = recipe(
        name="passes", lowering_recipe=lowering(partitioners=[xnnpack()()], edge_transform_passes=[passes_for])
    )
    export_fn(model=Linears().eval(), example_inputs=[X], export_recipe=mine)
    assert called == ["forward", 1]


def recipe_with_backend_config():
    export_fn, recipe = use("export", "export", "ExportRecipe")
    mine = recipe(
        name="outside", executorch_backend_config=use("exir", "ExecutorchBackendConfig")(external_constants=True)
    )
    session = export_fn(model=Linears().eval(), example_inputs=[X], export_recipe=mine)
    with tempfile.TemporaryDirectory() as folder:
        session.get_executorch_program_manager().write_tensor_data_to_file(folder)
        assert [name.endswith(".ptd") for name in os.listdir(folder)] == [True]


# ----------------------------------------------------------------------------- training between two halves of a recipe


def recipe_half_before_training():
    export_fn, recipe, stage = use("export", "export", "ExportRecipe", "StageType")
    mine = recipe.get_recipe(_kind().FP32)
    mine.pipeline_stages = [stage.SOURCE_TRANSFORM]
    session = export_fn(Image(), example_inputs=[PICTURE], export_recipe=mine)
    transformed = session.get_stage_artifacts()[stage.SOURCE_TRANSFORM].data["forward"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "before.pt2")
        torch.export.save(export(transformed, PICTURE, strict=True), path)
        assert torch.export.load(path).module()(*PICTURE).shape == (1, 5)


def _trained() -> Any:
    from torchao.quantization.pt2e import move_exported_model_to_eval, move_exported_model_to_train
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e

    prepared = prepare_qat_pt2e(export(Image(), PICTURE, strict=True).module(), _quantizer(is_qat=True))
    move_exported_model_to_train(prepared)
    kept = copy.deepcopy(prepared.state_dict())
    optimizer = torch.optim.SGD(prepared.parameters(), 0.05)
    for _ in range(3):
        loss = prepared(*PICTURE).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert any(not torch.equal(kept[name], value) for name, value in prepared.state_dict().items())
    move_exported_model_to_eval(prepared)
    return convert_pt2e(prepared)


def recipe_half_behind_training():
    export_fn, recipe, stage = use("export", "export", "ExportRecipe", "StageType")
    quantized = _trained()
    want = quantized(*PICTURE)
    mine = recipe.get_recipe(_kind().FP32)
    mine.pipeline_stages = [stage.TORCH_EXPORT, stage.TO_EDGE_TRANSFORM_AND_LOWER, stage.TO_EXECUTORCH]
    session = export_fn(quantized, example_inputs=[PICTURE], export_recipe=mine)
    with tempfile.TemporaryDirectory() as folder:
        session.save_to_pte(os.path.join(folder, "model"))
        with open(os.path.join(folder, "model.pte"), "rb") as file:
            same(run(file.read(), *PICTURE)[0], want, 0.05)


def recipe_of_a_saved_program():
    """A path of a .pt2 skips what comes before lowering, quantization too."""
    export_fn, recipe, stage = use("export", "export", "ExportRecipe", "StageType")
    quantized = _trained()
    want = quantized(*PICTURE)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trained.pt2")
        torch.export.save(export(quantized, PICTURE, strict=True), path)
        session = export_fn(path, export_recipe=recipe.get_recipe(_kind().PT2E_INT8_STATIC_PER_CHANNEL))
    assert stage.QUANTIZE not in session.get_stage_artifacts()
    same(run(session.get_pte_buffer(), *PICTURE)[0], want, 0.05)


def recipe_of_an_exported_program():
    export_fn, recipe = use("export", "export", "ExportRecipe")
    model = Linears().eval()
    for kind in (_kind().FP32, _kind().PT2E_INT8_DYNAMIC_PER_CHANNEL):
        session = export_fn(exported(model), export_recipe=recipe.get_recipe(kind))
        same(run(session.get_pte_buffer(), *X)[0], model(*X))
