"""The session that takes a model through the stages of its recipe."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from executorch_py.errors import InvalidArgumentError, InvalidStateError, InvalidTypeError, NotFoundError
from executorch_py.graphs.modules import module_of
from executorch_py.lowering.edge import EdgeProgramManager, to_edge, to_edge_transform_and_lower
from executorch_py.lowering.program import ExecutorchProgramManager

from .recipe import ExportRecipe, LoweringRecipe, QuantizationRecipe, StageType
from .stages import PipelineArtifact, Stage, require_order

__all__ = ["ExportSession", "export"]

_DEFAULT_STAGES = [
    StageType.SOURCE_TRANSFORM,
    StageType.QUANTIZE,
    StageType.TORCH_EXPORT,
    StageType.TO_EDGE_TRANSFORM_AND_LOWER,
    StageType.TO_EXECUTORCH,
]
#: Those that work on a module: a program that was exported before has been through them.
_OF_MODULES = frozenset({StageType.SOURCE_TRANSFORM, StageType.QUANTIZE, StageType.TORCH_EXPORT})


def export(
    model: Any,
    example_inputs: Any = None,
    export_recipe: ExportRecipe | None = None,
    name: str | None = None,
    dynamic_shapes: Any = None,
    constant_methods: Mapping[str, Any] | None = None,
    artifact_dir: str | None = None,
    generate_etrecord: bool = False,
) -> ExportSession:
    """Takes a model through its recipe; returns the session, which has the program. Arguments as of ExportSession."""
    session = ExportSession(
        model, example_inputs, export_recipe, name, dynamic_shapes, constant_methods, artifact_dir, generate_etrecord
    )
    session.export()
    return session


class ExportSession:
    """A model on its way.

    Args:
        model: A module, an ExportedProgram, the path of one, or several by method.
        example_inputs: A list of input tuples, or one by method. The first exports, all calibrate.
        export_recipe: The way; None: no quantization, no partitioners.
        name: For people.
        dynamic_shapes: As of ``torch.export.export``, or by method.
        constant_methods: As of ``to_edge``.
        artifact_dir: Accepted; the session writes no files by itself.
        generate_etrecord: As of ``to_edge``.

    Raises:
        InvalidArgumentError: A module comes without inputs, or stages cannot follow each other.
    """

    def __init__(
        self,
        model: Any,
        example_inputs: Any = None,
        export_recipe: ExportRecipe | None = None,
        name: str | None = None,
        dynamic_shapes: Any = None,
        constant_methods: Mapping[str, Any] | None = None,
        artifact_dir: str | None = None,
        generate_etrecord: bool = False,
    ) -> None:
        self.recipe = export_recipe or ExportRecipe()
        self.name = name
        given = torch.export.load(model) if isinstance(model, (str, os.PathLike)) else model
        self._model = dict(given) if isinstance(given, Mapping) else {"forward": given}
        inputs = example_inputs if isinstance(example_inputs, Mapping) else {"forward": example_inputs}
        self._inputs = {method: list(inputs.get(method) or []) for method in self._model}
        by_method = isinstance(dynamic_shapes, Mapping) and set(dynamic_shapes) <= set(self._model) and dynamic_shapes
        self._shapes = dict(dynamic_shapes) if by_method else {"forward": dynamic_shapes}
        self._constant_methods = dict(constant_methods or {})
        self._generate_etrecord = generate_etrecord
        self._artifacts: dict[StageType, PipelineArtifact] = {}
        for method, one in self._model.items():
            if not isinstance(one, ExportedProgram) and not self._inputs[method]:
                raise InvalidArgumentError(f"method '{method}' is a module and has no example_inputs: [(x, …)]")
        self._stages: dict[StageType, Any] = {kind: Stage(kind, work) for kind, work in self._own_stages().items()}
        self._order = self._order_of_stages()

    def _order_of_stages(self) -> list[StageType]:
        """The recipe's stages; without any, the default ones, of which exported programs skip those for modules.

        Raises:
            InvalidArgumentError: The recipe has stages for modules, and the model is an exported program.
        """
        are_exported = [method for method, one in self._model.items() if isinstance(one, ExportedProgram)]
        given = self.recipe.pipeline_stages
        stages = [StageType(one) for one in (_DEFAULT_STAGES if given is None else given)]
        if not are_exported:
            return stages
        if given is None and len(are_exported) == len(self._model):
            return [one for one in stages if one not in _OF_MODULES]
        for one in stages:
            if one in _OF_MODULES:
                raise InvalidArgumentError(
                    f"stage {one.name} is for modules, and method '{are_exported[0]}' is an ExportedProgram: leave the "
                    "stage out of pipeline_stages, or give modules for all methods"
                )
        return stages

    def _own_stages(self) -> dict[StageType, Callable[[PipelineArtifact], Any]]:
        return {
            StageType.SOURCE_TRANSFORM: self._source_transform,
            StageType.QUANTIZE: self._quantize,
            StageType.TORCH_EXPORT: self._torch_export,
            StageType.TO_EDGE_TRANSFORM_AND_LOWER: self._lower,
            StageType.TO_EDGE: self._to_edge,
            StageType.EDGE_PROGRAM_MANAGER_TRANSFORM: self._transform_manager,
            StageType.TO_BACKEND: self._to_backend,
            StageType.TO_EXECUTORCH: self._to_executorch,
        }

    # ------------------------------------------------------------------------------------------------------ the stages

    def _source_transform(self, artifact: PipelineArtifact) -> Any:
        configs = (self.recipe.quantization_recipe or QuantizationRecipe()).ao_quantization_configs
        if not configs:
            return artifact.data
        from torchao.quantization import quantize_

        models = artifact.data if self.recipe.source_transform_in_place else copy.deepcopy(artifact.data)
        for model in models.values():
            for config in configs:
                quantize_(model, config.ao_base_config, config.filter_fn)
        return models

    def _quantize(self, artifact: PipelineArtifact) -> Any:
        recipe = self.recipe.quantization_recipe
        if recipe is None or not recipe.quantizers:
            return artifact.data
        return {method: self._quantized(model, method, recipe) for method, model in artifact.data.items()}

    def _quantized(self, model: Any, method: str, recipe: QuantizationRecipe) -> Any:
        from executorch_py.quantizer import ComposableQuantizer, convert_pt2e, prepare_pt2e, prepare_qat_pt2e

        quantizers = recipe.get_quantizers() or []
        quantizer = quantizers[0] if len(quantizers) == 1 else ComposableQuantizer(quantizers)
        example = self._inputs[method][0]
        shapes = self._shapes.get(method)
        if shapes is None and recipe.dynamic_batch_size:
            shapes = tuple(
                {0: torch.export.Dim.AUTO} if isinstance(x, torch.Tensor) and x.dim() else None for x in example
            )
        captured = module_of(torch.export.export(model, example, dynamic_shapes=shapes, strict=self.recipe.strict))
        captured = _after(recipe.pre_prepare_passes, captured)
        prepared = (prepare_qat_pt2e if recipe.is_qat else prepare_pt2e)(captured, quantizer)
        prepared = _after(recipe.post_prepare_passes, prepared)
        if recipe.is_qat:
            if recipe.train_fn is None:
                raise InvalidArgumentError("the recipe has is_qat and no train_fn, which trains the prepared model")
            recipe.train_fn(prepared)
        else:
            data = recipe.calibration_inputs_fn() if recipe.calibration_inputs_fn else self._inputs[method]
            for inputs in data:
                prepared(*inputs)
        return _after(recipe.post_convert_passes, convert_pt2e(_after(recipe.pre_convert_passes, prepared)))

    def _torch_export(self, artifact: PipelineArtifact) -> Any:
        programs = {}
        for method, model in artifact.data.items():
            program = model
            if not isinstance(model, ExportedProgram):
                shapes, strict = self._shapes.get(method), self.recipe.strict
                program = torch.export.export(model, self._inputs[method][0], dynamic_shapes=shapes, strict=strict)
            for change in self.recipe.aten_transform_passes or []:
                program = change(method, program)
            programs[method] = program
        return programs

    def _lower(self, artifact: PipelineArtifact) -> EdgeProgramManager:
        recipe = self._lowering()
        return to_edge_transform_and_lower(
            artifact.data,
            transform_passes=self._passes(artifact.data) if recipe.edge_transform_passes else None,
            partitioner=recipe.partitioners,  # type: ignore[arg-type]
            constant_methods=self._constant_methods,
            compile_config=recipe.edge_compile_config,
        )

    def _passes(self, programs: Mapping[str, Any]) -> dict[str, list[Any]]:
        changes = self._lowering().edge_transform_passes or []
        return {
            name: [one for change in changes for one in _several(change(name, programs[name]))] for name in programs
        }

    def _to_edge(self, artifact: PipelineArtifact) -> EdgeProgramManager:
        return to_edge(artifact.data, self._constant_methods, self._lowering().edge_compile_config)

    def _transform_manager(self, artifact: PipelineArtifact) -> EdgeProgramManager:
        manager: EdgeProgramManager = artifact.data
        if self._lowering().edge_transform_passes:
            manager = manager.transform(
                self._passes({name: manager.exported_program(name) for name in manager.methods})
            )
        for change in self._lowering().edge_manager_transform_passes or []:
            manager = manager.transform(_several(change(manager)))
        return manager

    def _to_backend(self, artifact: PipelineArtifact) -> EdgeProgramManager:
        partitioners = self._lowering().partitioners
        return artifact.data.to_backend(partitioners) if partitioners else artifact.data

    def _to_executorch(self, artifact: PipelineArtifact) -> ExecutorchProgramManager:
        return artifact.data.to_executorch(self.recipe.executorch_backend_config)

    def _lowering(self) -> LoweringRecipe:
        return self.recipe.lowering_recipe or LoweringRecipe()

    # ------------------------------------------------------------------------------------------------------- for users

    def export(self) -> None:
        """Runs the stages in their order.

        Raises:
            InvalidArgumentError: A stage cannot stand where it does.
        """
        require_order(self._order, self._stages)
        context = {"example_inputs": self._inputs, "dynamic_shapes": self._shapes, "session_name": self.name}
        artifact = PipelineArtifact(dict(self._model), context)
        for kind in self._order:
            stage = self._stages[kind]
            stage.run(artifact)
            artifact = stage.get_artifacts()
            self._artifacts[kind] = artifact

    def register_stage(self, stage_type: StageType, stage: Any) -> None:
        """Puts a stage of your own in the place of one.

        Raises:
            InvalidTypeError: It has not the methods ``run`` and ``get_artifacts``.
        """
        if not (callable(getattr(stage, "run", None)) and callable(getattr(stage, "get_artifacts", None))):
            raise InvalidTypeError(f"the stage is {stage!r:.60}; it must have run(artifact) and get_artifacts()")
        self._stages[StageType(stage_type)] = stage

    def get_registered_stage(self, stage_type: StageType) -> Any:
        """The stage of a kind; None: there is none."""
        return self._stages.get(StageType(stage_type))

    def get_all_registered_stages(self) -> dict[StageType, Any]:
        """All stages by kind."""
        return dict(self._stages)

    def get_stage_artifacts(self) -> dict[StageType, PipelineArtifact]:
        """What each stage made."""
        return dict(self._artifacts)

    def _made(self, *kinds: StageType) -> Any:
        for kind in kinds:
            if kind in self._artifacts:
                return self._artifacts[kind].data
        raise InvalidStateError(f"no stage {' or '.join(kind.name for kind in kinds)} has run: call export() first")

    def get_exported_program(self, method_name: str = "forward") -> ExportedProgram:
        """What ``torch.export`` made of a method."""
        programs = self._made(StageType.TORCH_EXPORT)
        if method_name not in programs:
            raise NotFoundError(f"there is no method '{method_name}'; there are {', '.join(sorted(programs))}")
        return programs[method_name]

    def get_edge_program_manager(self) -> EdgeProgramManager:
        """The lowered program."""
        return self._made(
            StageType.TO_EDGE_TRANSFORM_AND_LOWER,
            StageType.TO_BACKEND,
            StageType.EDGE_PROGRAM_MANAGER_TRANSFORM,
            StageType.TO_EDGE,
        )

    def get_executorch_program_manager(self) -> ExecutorchProgramManager:
        """The compiled program."""
        return self._made(StageType.TO_EXECUTORCH)

    def get_executorch_program(self) -> Any:
        """The compiled program, for ``print_program``."""
        return self.get_executorch_program_manager().executorch_program

    def get_pte_buffer(self) -> bytes:
        """The bytes of the file."""
        return self.get_executorch_program_manager().buffer

    def get_etrecord(self) -> Any:
        """What developer tools need beside the file."""
        return self.get_executorch_program_manager().get_etrecord()

    def save_to_pte(self, output_name: str) -> str:
        """Writes the file, with ``.pte`` at the end of its name; returns the path.

        Raises:
            InvalidArgumentError: The name is empty.
        """
        if not output_name:
            raise InvalidArgumentError("output_name is empty")
        path = Path(output_name if output_name.endswith(".pte") else f"{output_name}.pte")
        self.get_executorch_program_manager().save(path)
        return os.fspath(path)

    def get_example_input(self, method_name: str = "forward") -> tuple[Any, ...]:
        """The first inputs of a method.

        Raises:
            NotFoundError: There are none.
        """
        if not self._inputs.get(method_name):
            raise NotFoundError(f"there are no example inputs of a method '{method_name}'")
        return self._inputs[method_name][0]

    def run_method(self, method_name: str = "forward", example_inputs: Sequence[Any] | None = None) -> list[Any]:
        """Runs the compiled program on inputs; None: the first example."""
        from executorch_py.runtime import Runtime

        inputs = self.get_example_input(method_name) if example_inputs is None else example_inputs
        return Runtime.get().load_program(self.get_pte_buffer()).load_method(method_name).execute(list(inputs))

    def print_delegation_info(self) -> None:
        """Prints how much of each method is delegated."""
        from executorch_py.devtools.delegation_info import print_delegation_info

        manager = self.get_edge_program_manager()
        for name in sorted(manager.methods):
            print_delegation_info(manager.exported_program(name).graph_module)


def _after(changes: Any, module: Any) -> Any:
    for change in changes or []:
        module = change(module)
    return module


def _several(passes: Any) -> list[Any]:
    return list(passes) if isinstance(passes, (list, tuple)) else [passes]
