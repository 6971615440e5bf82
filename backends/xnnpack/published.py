"""Published paths below ``backends.xnnpack``, as rows of the table in ``executorch_py/compat/published.py``."""

MODULES: dict[str, str] = {
    "partition": "",
    "partition.config": "backends.xnnpack.partition_configs: *",
    "partition.config.gemm_configs": "backends.xnnpack.partition_configs: *",
    "partition.config.generic_node_configs": "backends.xnnpack.partition_configs: *",
    "partition.config.node_configs": "backends.xnnpack.partition_configs: *",
    "partition.config.quant_affine_configs": "backends.xnnpack.partition_configs: *",
    "partition.config.xnnpack_config": (
        "backends.xnnpack.preprocess: ConfigPrecisionType=Precision; backends.xnnpack.partition_configs: "
        "XNNPartitionerConfig"
    ),
    "partition.xnnpack_partitioner": (
        "backends.xnnpack.partitioner: XnnpackPartitioner=PublishedXnnpackPartitioner, "
        "XnnpackDynamicallyQuantizedPartitioner, "
        "XnnpackFloatingPointPartitioner, XnnpackQuantizedPartitioner; backends.xnnpack.preprocess: "
        "ConfigPrecisionType=Precision"
    ),
    "quantizer": "",
    "quantizer.xnnpack_quantizer": ("quantizer: XNNPACKQuantizer, get_symmetric_quantization_config"),
    "quantizer.xnnpack_quantizer_utils": "quantizer.spec.pt2e: QuantizationConfig",
    "recipes.xnnpack_recipe_provider": "backends.xnnpack.recipes: XNNPACKRecipeProvider",
    "recipes.xnnpack_recipe_types": "backends.xnnpack.recipes: XNNPackRecipeType",
    "utils": "",
    "utils.configs": (
        "backends.xnnpack.configs: get_transform_passes, get_xnnpack_edge_compile_config, "
        "get_xnnpack_executorch_backend_config"
    ),
}

NOT_HERE: dict[str, str] = {
    "_passes": "the delegate's compiler is C++ and needs no passes over fx",
    "operators": "the delegate's compiler is C++ and needs no passes over fx",
    "partition.graphs": "the delegate's compiler is C++ and needs no passes over fx",
    "serialization": "the delegate's compiler is C++ and needs no passes over fx",
    "third-party": "sources of libraries",
    "utils.gemm_utils": "the delegate's compiler is C++ and needs no passes over fx",
    "utils.quant_utils": "the delegate's compiler knows quantized operators itself",
    "utils.xnnpack_constants": "numbers of XNNPACK's C interface, which C++ reads",
    "xnnpack_preprocess": "the delegate's compiler is C++",
    "partition.xnnpack_partitioner": "partition(exported_program) does it, without steps between",
    "partition.config": "those operators are taken with the ones around them",
    "quantizer": "executorch_py.quantizer annotates by its own tables",
    "utils.utils": "the delegate's compiler is C++ and needs no passes over fx",
}
