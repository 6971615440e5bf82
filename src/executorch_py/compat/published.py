"""The one table of the published package's modules: where their names are here, and why some are not.

``MODULES`` maps a path below the root to the places of its names, "module: name, name; module: name". A module is
relative to ``executorch_py``, and "name=other" gives ``other`` under the published ``name``. A path without places is a
package with nothing of its own. Modules that are files here (``exir/backend/partitioner.py``) have no row unless names
come from elsewhere.

``NOT_HERE`` maps a path, or a name of a module, to the reason. It holds for everything below it.

What stands here makes the modules (``finder.py``), the stubs (``stubs.py``), and the page (``page.py``). A test holds
it against the published package.
"""

from __future__ import annotations

import importlib

_RECIPES = (
    "recipes: AOQuantizationConfig, BackendRecipeProvider, ExportRecipe, ExportSession, LoweringRecipe, "
    "QuantizationRecipe, RecipeType, StageType, export, recipe_registry"
)
_EDGE_OPS = "exir.dialects._ops: EdgeOpOverload, EdgeOpOverloadPacket"
_COMPARATORS = "devtools.inspector.numerical_comparator"
_MANAGERS = (
    "lowering.edge: EdgeProgramManager, to_edge, to_edge_transform_and_lower; "
    "lowering.program: ExecutorchProgramManager"
)
_CONFIGS = "lowering.config: EdgeCompileConfig, ExecutorchBackendConfig"

MODULES: dict[str, str] = {
    "devtools.backend_debug": (
        "devtools.delegation_info: DelegationBreakdown, DelegationInfo, get_delegation_info, print_delegation_info"
    ),
    "devtools.backend_debug.delegation_info": (
        "devtools.delegation_info: DelegationBreakdown, DelegationInfo, get_delegation_info, print_delegation_info"
    ),
    "devtools.bundled_program.schema.bundled_program_schema": (
        "devtools.bundled_program.schema: Bool, BundledMethodTestCase, BundledMethodTestSuite, BundledProgram, Double, "
        "Int, Tensor, Value, ValueUnion"
    ),
    "devtools.etrecord._etrecord": "devtools.etrecord: ETRecord, generate_etrecord, parse_etrecord",
    "devtools.inspector._inspector": ("devtools.inspector: Event, EventBlock, Inspector, PerfData"),
    "devtools.inspector._inspector_utils": "devtools.inspector: TimeScale, compare_results",
    f"{_COMPARATORS}.l1_numerical_comparator": f"{_COMPARATORS}: L1Comparator",
    f"{_COMPARATORS}.mse_numerical_comparator": f"{_COMPARATORS}: MSEComparator",
    f"{_COMPARATORS}.numerical_comparator_base": f"{_COMPARATORS}: NumericalComparatorBase",
    f"{_COMPARATORS}.snr_numerical_comparator": f"{_COMPARATORS}: SNRComparator",
    "exir._serialize": "",
    "exir._serialize._named_data_store": "exir.named_data: DataEntry, NamedDataStore, NamedDataStoreOutput",
    "exir._serialize.data_serializer": "exir.named_data: DataEntry",
    "exir.backend.backend_api": (
        "exir.backend.backend_details: BackendDetails, PreprocessResult; exir.backend.compile_spec_schema: "
        "CompileSpec; exir.backend.partitioner: Partitioner, PartitionResult; lowering.lowered_backend_module: "
        "LoweredBackendModule; lowering.delegation: to_backend"
    ),
    "exir.backend.test": "",
    "exir.backend.test.backend_with_compiler_demo": "exir.backend.demo_backend: BackendWithCompilerDemo",
    "exir.backend.test.op_partitioner_demo": (
        "exir.backend.demo_backend: AddAttributePartitionerDemo, AddMulPartitionerDemo"
    ),
    "exir.capture": _CONFIGS,
    "exir.capture._config": (
        f"{_CONFIGS}; exir.dynamic_shape: DynamicMemoryPlanningMode; exir.passes.memory_planning_pass: "
        "MemoryPlanningPass; "
        "exir.passes.fixed_passes: ConstraintBasedSymShapeEvalPass, PropagateDeviceConfig, ToOutVarPass"
    ),
    "exir.dialects.backend": "",
    "exir.dialects.backend._ops": (
        "exir.dialects._ops: BackendOpOverload=EdgeOpOverload, BackendOpOverloadPacket=EdgeOpOverloadPacket"
    ),
    "exir.dialects.edge": "",
    "exir.dialects.edge._ops": _EDGE_OPS,
    "exir.lowered_backend_module": (
        "lowering.lowered_backend_module: LoweredBackendModule; "
        "exir.backend.compiled_part: executorch_call_delegate, get_lowered_backend_modules, get_lowered_submodules"
    ),
    "exir.pass_manager": "lowering.pass_manager: ExportedProgramPassManager, PassManager, PassType",
    "exir.passes.const_prop_pass": "exir.passes.fixed_passes: ConstPropPass",
    "exir.passes.cse_pass": "exir.passes.fixed_passes: CSEPass",
    "exir.passes.fold_redundant_qdq_pass": "exir.passes.fixed_passes: FoldRedundantDequantizeQuantizePass",
    "exir.passes.init_mutable_pass": "exir.passes.fixed_passes: InitializedMutableBufferPass",
    "exir.passes.propagate_device_config": "exir.passes.fixed_passes: PropagateDeviceConfig",
    "exir.passes.quant_fusion_pass": "exir.passes.fixed_passes: QuantFusionPass",
    "exir.passes.remove_noop_pass": "exir.passes.graph_passes: RemoveNoopPass",
    "exir.passes.replace_view_copy_with_view_pass": "exir.passes.fixed_passes: ReplaceViewCopyWithViewPass",
    "exir.passes.scalar_to_tensor_pass": "exir.passes.graph_passes: ScalarToTensorPass",
    "exir.passes.spec_prop_pass": "exir.passes.graph_passes: SpecPropPass, make_spec",
    "exir.passes.sym_shape_eval_pass": (
        "exir.passes.fixed_passes: ConstraintBasedSymShapeEvalPass, HintBasedSymShapeEvalPass"
    ),
    "exir.program": _MANAGERS,
    "exir.program._program": _MANAGERS,
    "exir.scalar_type": "runtime: ScalarType",
    "export": _RECIPES,
    "export.export": "recipes: ExportSession, export",
    "export.recipe": (
        "recipes: AOQuantizationConfig, ExportRecipe, LoweringRecipe, Mode, QuantizationRecipe, RecipeType"
    ),
    "export.recipe_provider": "recipes: BackendRecipeProvider",
    "export.recipe_registry": "recipes: RecipeRegistry, recipe_registry",
    "export.stages": "recipes.stages: PipelineArtifact, Stage",
    "export.types": "recipes: StageType",
    "extension": "",
    "extension.export_util": "compat.export_util: export_to_edge, export_to_exec_prog, save_pte_program",
    "extension.export_util.utils": "compat.export_util: export_to_edge, export_to_exec_prog, save_pte_program",
    "extension.pybindings": "",
    "extension.pybindings.portable_lib": "compat.portable_lib: *",
    "extension.pybindings._portable_lib": "compat.portable_lib: *",
    "extension.pybindings.core": "compat.portable_lib: *",
    "extension.training": (
        "training: TrainingModule, _load_for_executorch_for_training, _load_for_executorch_for_training_from_buffer, "
        "get_sgd_optimizer"
    ),
    "extension.training.pybindings": "",
    "extension.training.pybindings._training_lib": "training: ExecuTorchSGD=SGD, get_sgd_optimizer",
    "extension.training.pybindings._training_module": (
        "training: TrainingModule, _load_for_executorch_for_training, _load_for_executorch_for_training_from_buffer"
    ),
    "extension.pytree": (
        "compat.torch_pytree: TreeSpec, broadcast_to_and_flatten, from_str, register_custom, tree_flatten, tree_map, "
        "tree_unflatten, treespec_dumps, treespec_loads"
    ),
    "kernels": "",
    "kernels.portable": "",
    "kernels.quantized": "",
    "util": "",
    "util.activation_memory_profiler": (
        "devtools.memory_trace: Allocation, MemoryTimeline, create_tensor_allocation_info, generate_memory_trace"
    ),
    "version": "compat.version: __version__",
}

_VENDOR = "it is another vendor's backend, which needs the published package and the vendor's compiler"
_IN_CPP = "the compiler does this in C++ (`etpy passes` lists its passes)"
_FILE_TABLES = "files are written and read in C++; `etpy inspect` and `pte_dump` show them"
_OWN = "helpers of the published package's own"
_LLM = "language models are exported with torch.export like others; custom kernels for them are not needed here"

NOT_HERE: dict[str, str] = {
    **dict.fromkeys(
        (
            f"backends.{name}"
            for name in (
                "aoti", "apple", "arm", "cadence", "cortex_m", "cuda", "mediatek", "mlx", "mps", "native", "nxp",
                "openvino",
                "qualcomm", "samsung", "vulkan", "webgpu",
            )
        ),
        _VENDOR,
    ),
    "backends.example.example_backend": "the example backend here is another one: executorch_py.backends.example",
    "backends.example.example_backend_delegate_passes": "the example backend here is another one",
    "backends.example.example_operators": "the example backend here is another one",
    "backends.example.example_partitioner": "the example backend here is another one: executorch_py.backends.example",
    "backends.example.example_quantizer": "executorch_py.quantizer.ExampleQuantizer is the example here",
    "backends.test": "they are the published package's own tests",
    "backends.transforms": _IN_CPP,
    "codegen.api": "codegen/kernel_library.py reads functions.yaml and custom_ops.yaml",
    "codegen.gen": "codegen/kernel_library.py reads functions.yaml and custom_ops.yaml",
    "codegen.model": "codegen/kernel_library.py reads functions.yaml and custom_ops.yaml",
    "codegen.parse": "codegen/kernel_library.py reads functions.yaml and custom_ops.yaml",
    "codegen.tools": "`-DET_SELECT_OPS=file` selects kernels, and executorch_py.codegen.select_ops does it in Python",
    "data": _FILE_TABLES,
    "devtools.bundled_program": "bundled programs are written and read as bytes, without JSON between",
    "devtools.debug_format": "Inspector reads torch.fx graphs as they are",
    "devtools.etdump": (
        "the runtime writes ETDumps; executorch_py.devtools.etdump.serialize reads them, without JSON "
        "between"
    ),
    "devtools.etrecord": _OWN,
    "devtools.inspector": _OWN,
    "devtools.inspector.vgf_neural_statistics": _VENDOR,
    "devtools.intermediate_output_tap": (
        "the runtime records intermediate values: load_program(..., debug_buffer_size=...), then "
        "Inspector.calculate_numeric_gap"
    ),
    "devtools.pte_tool": "`etpy compare` and executorch_py.devtools.compare tell two programs apart",
    "devtools.scripts": "Inspector.save_data_to_tsv writes the events of a run",
    "devtools.size_analysis_tool": "`etpy inspect` shows sizes; executorch_py.devtools.compare those of two programs",
    "devtools.visualization": "Inspector.to_html writes a page with pictures",
    "examples": "they are the published repository's examples",
    **dict.fromkeys(
        (f"exir.{name}" for name in ("CallSpec", "CaptureConfig", "ExirDynamoConfig", "ExirExportedProgram", "load",
                                     "save")),
        "torch.export.export, torch.export.save and torch.export.load took its place",
    ),
    **dict.fromkeys(
        (f"exir.{name}" for name in ("EmitterOutput", "ExecutorchProgram", "edge_to_executorch_passes",
                                     "emit_program")),
        "programs are compiled and written in C++: to_executorch()",
    ),
    "exir._program_utils": _IN_CPP,
    "exir._serialize": _FILE_TABLES,
    "exir._warnings": "they are marks of the published package's own development",
    "exir.backend.backend_api": _OWN,
    "exir.backend.backend_details": _OWN,
    "exir.backend.canonical_partitioners": "constants and dequantizations may be read by several parts here",
    "exir.backend.test": "they are the published package's own tests",
    "exir.backend.utils": "quantized operators are fused in C++",
    "exir.banked_memory_planning": "MemoryPlanningPass(memory_capacities={1: bytes, 2: 0}) plans several memories",
    "exir.capture": "torch.export.export and to_edge took its place",
    "exir.common": _OWN,
    "exir.control_flow": "torch.cond, torch.while_loop and torch.ops.higher_order are lowered as they are",
    "exir.debug_handle_utils": _OWN,
    "exir.dialects.edge.arg": _OWN,
    "exir.dialects.edge.dtype": _OWN,
    "exir.dialects.edge.op": _OWN,
    "exir.dialects.edge.spec": _OWN,
    "exir.dialects.edge._ops": (
        "operators of Edge are torch's own; kernels say their element types when they are "
        "registered"
    ),
    "exir.dim_order_utils": _IN_CPP,
    "exir.emit": "programs are written in C++: to_executorch()",
    "exir.error": "errors are classes of executorch_py.errors, and each is the builtin exception that fits as well",
    "exir.graph": "graphs are torch.fx graphs",
    "exir.graph_module": (
        "helpers of the published package's own; exir.backend.utils.nodes_with_bodies walks into "
        "branches"
    ),
    "exir.lowered_backend_module": "lowering.extraction takes parts out of graphs; get_lowered_submodules finds them",
    "exir.memory_planning": "greedy and naive are here without the tables inside; the compiler's planner is C++",
    "exir.native": _IN_CPP,
    "exir.operator": _IN_CPP,
    **dict.fromkeys(
        (f"exir.dialects.{kind}OpOverload.to_out_variant" for kind in ("backend._ops.Backend", "edge._ops.Edge")),
        "operators of Edge are torch's own; the compiler chooses kernels that write into memory",
    ),
    "exir.pass_base": _OWN,
    "exir.passes": _IN_CPP,
    "exir.print_program": "source lines are in the program's text",
    "exir.program": _OWN,
    "exir.scalar_type": "the runtime has no elements of this type",
    "exir.schema": _FILE_TABLES,
    "exir.serde": "torch.export.save and torch.export.load do it",
    "exir.sym_util": _OWN,
    "exir.tensor": _FILE_TABLES,
    "exir.tensor_layout": _FILE_TABLES,
    "exir.tests": "they are the published package's own tests",
    "exir.tracer": "torch.export.export took its place",
    "exir.types": _OWN,
    "exir.verification": "programs are verified in C++ when they are loaded: Runtime.load_program",
    "exir.version": "executorch_py.__version__ is the version",
    "exir.wrap": "torch.export.export took its place",
    "exir.capture_fn": "torch.export.export took its place",
    "export.recipe": _OWN,
    "export.stages": "a session's stages are its own; register_stage takes objects with run and get_artifacts",
    "export.target_recipes": (
        "they name other vendors' backends; a backend's own list of recipes has those that are "
        "here"
    ),
    "export.utils": "they need other vendors' backends",
    "extension.audio": "torchaudio's transforms are exported like other modules",
    "extension.flat_tensor": _FILE_TABLES,
    "extension.gguf_util": _LLM,
    "extension.image": "torchvision's transforms are exported like other modules",
    "extension.llm": _LLM,
    "extension.module": "executorch_py.load gives a callable with the model's own arguments",
    "extension.threadpool": "executorch_py.set_num_threads",
    "schema": _FILE_TABLES,
    "util.collect_env": "`etpy doctor` says what is installed, and tries it",
    "util.python_profiler": "Python's own profilers do it",
}  # fmt: skip


def _add_backends() -> None:
    """Adds the rows of each backend: ``MODULES`` and ``NOT_HERE`` of its ``published.py``, with paths below the
    backend.
    """
    import runpy
    import sys
    from pathlib import Path

    folders = [Path(one) for one in sys.modules["executorch_py"].__path__]
    folders += [one.parents[1] for one in folders if one.parent.name == "src"]  # a source tree has them beside src/
    for folder in folders:
        for file in sorted(folder.glob("backends/*/published.py")):
            rows = runpy.run_path(str(file))
            for table, name in ((MODULES, "MODULES"), (NOT_HERE, "NOT_HERE")):
                table.update({f"backends.{file.parent.name}.{path}": row for path, row in rows[name].items()})


_add_backends()


def not_here(path: str, reason: str) -> Exception:
    """The error for what the table has a reason for.

    It is an ImportError, so that ``from x import y`` shows the reason.
    """
    from executorch_py.errors import NotHereError

    return NotHereError(f"executorch_py has no '{path}': {reason}")


def why_not(path: str) -> str:
    """The reason of the longest path of ``NOT_HERE`` that ``path`` lies in; "" when there is none."""
    parts = path.split(".")
    for count in range(len(parts), 0, -1):
        if reason := NOT_HERE.get(".".join(parts[:count])):
            return reason
    return ""


def is_module(path: str) -> bool:
    """Whether the table has a row for this module, or for one below it."""
    return path in MODULES or any(known.startswith(f"{path}.") for known in MODULES)


def names_of(path: str) -> dict[str, tuple[str, str]]:
    """Published name -> module and name here; without a name it is the module itself."""
    names: dict[str, tuple[str, str]] = {}
    for place in filter(None, MODULES.get(path, "").split(";")):
        module, _, listed = place.strip().partition(": ")
        for one in listed.split(","):
            name, _, other = one.strip().partition("=")
            for single in _all_of(module) if name == "*" else [name]:
                names[single] = (module, other or single)
    return names


def _all_of(module: str) -> list[str]:
    """The names that a whole module gives: those it lists, or all that are not private and its own."""
    found = importlib.import_module(f"executorch_py.{module}")
    own = [
        name for name, value in vars(found).items() if getattr(value, "__module__", found.__name__) == found.__name__
    ]
    return list(getattr(found, "__all__", [name for name in own if not name.startswith("_")]))
