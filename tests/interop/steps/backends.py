"""Delegation, and XNNPACK with its quantizer."""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import nn
from torch.export import export

from .shared import PICTURE, XY, Image, Linears, Logit, Sums, X, exported, run, same, use, xnnpack


def _backend(name: str) -> Any:
    details, result = use("exir.backend.backend_details", "BackendDetails", "PreprocessResult")

    def preprocess(edge_program, compile_specs):
        names = [str(n.target).split(".")[-2] for n in edge_program.graph.nodes if n.op == "call_function"]
        return result(processed_bytes=" ".join(names).encode())

    _KEPT.append(type(name, (details,), {"preprocess": staticmethod(preprocess)}))
    return _KEPT[-1]


#: The published package finds backends among the subclasses that live.
_KEPT: list[type] = []


def _partitioner(backend: str, accepts: Any) -> Any:
    base, result, spec = use("exir.backend.partitioner", "Partitioner", "PartitionResult", "DelegationSpec")
    compile_spec = use("exir.backend.compile_spec_schema", "CompileSpec")

    class Tags(base):
        def __init__(self) -> None:
            super().__init__()
            self.delegation_spec = spec(backend, [compile_spec("max_value", bytes([4]))])

        def partition(self, exported_program):
            tags = {}
            for node in exported_program.graph.nodes:
                if node.op == "call_function" and accepts(node):
                    node.meta["delegation_tag"] = "tag0"
                    tags["tag0"] = self.delegation_spec
            return result(tagged_exported_program=exported_program, partition_tags=tags)

    return Tags()


def to_backend_whole_module():
    to_backend, lowered_class = use("exir.backend.backend_api", "to_backend", "LoweredBackendModule")
    _backend("WholeDemo")
    program = use("exir", "to_edge")(exported(Sums(), XY)).exported_program()
    lowered = to_backend("WholeDemo", program, [])
    assert isinstance(lowered, lowered_class) and lowered.backend_id == "WholeDemo"
    assert b"mul" in lowered.processed_bytes and lowered.compile_specs == []
    assert lowered.original_module is not None
    assert len(lowered.buffer()) > 0


def to_backend_composed():
    to_backend = use("exir.backend.backend_api", "to_backend")
    _backend("ComposedDemo")
    lowered = to_backend("ComposedDemo", use("exir", "to_edge")(exported(Sums(), XY)).exported_program(), [])

    class Composed(nn.Module):
        def __init__(self):
            super().__init__()
            self.lowered = lowered

        def forward(self, x, y):
            return (
                self.lowered(x, y)[0] + 1 if isinstance(self.lowered(x, y), (list, tuple)) else self.lowered(x, y) + 1
            )

    edge = use("exir", "to_edge")(export(Composed(), XY))
    module = edge.exported_program().graph_module
    assert module.lowered_module_0.backend_id == "ComposedDemo"
    assert edge.to_executorch().buffer


def to_backend_by_partitioner():
    _backend("PartsDemo")
    partitioner = _partitioner("PartsDemo", lambda n: "mul" in str(n.target))
    to_backend = use("exir.backend.backend_api", "to_backend")
    program = use("exir", "to_edge")(exported(Sums(), XY)).exported_program()
    delegated = to_backend(program, partitioner)
    assert delegated.graph_module.lowered_module_0.backend_id == "PartsDemo"
    assert delegated.graph_module.lowered_module_0.compile_specs[0].key == "max_value"


def manager_to_backend():
    _backend("ManagerDemo")
    call = use("exir.delegate", "executorch_call_delegate")
    edge = use("exir", "to_edge")(exported(Sums(), XY))
    edge = edge.to_backend(_partitioner("ManagerDemo", lambda n: True))
    calls = [n for n in edge.exported_program().graph.nodes if n.target is call]
    assert len(calls) == 1 and edge.to_executorch().buffer


def delegated_graph_as_text():
    _backend("TextDemo")
    utils = use("exir.backend.utils")
    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(
        _partitioner("TextDemo", lambda n: "mul" in str(n.target))
    )
    module = edge.exported_program().graph_module
    text = utils.format_delegated_graph(module)
    assert "backend_id: TextDemo" in text and "lowered graph" in text
    assert len(utils.get_delegates(module.graph)) == 1
    assert len(utils.get_non_lowered_nodes(module.graph)) == 2


def lowered_modules_of_a_graph():
    _backend("ListDemo")
    modules, submodules = use("exir.lowered_backend_module", "get_lowered_backend_modules", "get_lowered_submodules")
    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(_partitioner("ListDemo", lambda n: True))
    graph_module = edge.exported_program().graph_module
    assert [m.backend_id for m in modules(graph_module)] == ["ListDemo"]
    ((name, part, _),) = submodules(graph_module)
    assert name == "lowered_module_0" and part.backend_id == "ListDemo"


def identical_graphs():
    same_graph = use("exir.backend.utils", "is_identical_graph")
    make = lambda model: use("exir", "to_edge")(exported(model, XY)).exported_program().graph_module  # noqa: E731

    class Other(nn.Module):
        def forward(self, x, y):
            return ((x * y) * y) + x

    assert same_graph(make(Sums()), make(Sums())) and not same_graph(make(Sums()), make(Other()))


def all_node_partitioner():
    _backend("AllDemo")
    partitioner = use("exir.backend.canonical_partitioners.all_node_partitioner", "AllNodePartitioner")
    edge = use("exir", "to_edge")(exported()).to_backend(partitioner("AllDemo", []))
    module = edge.exported_program().graph_module
    assert module.lowered_module_0.backend_id == "AllDemo"
    assert [n for n in module.graph.nodes if n.op == "placeholder"][-1].name == "x"


def constants_are_tagged():
    _backend("ConstantsDemo")
    tag = use("exir.backend.utils", "tag_constant_data")
    partitioner = _partitioner("ConstantsDemo", lambda n: True)
    inner = partitioner.partition

    def partition(exported_program):
        result = inner(exported_program)
        tag(exported_program)
        return result

    partitioner.partition = partition
    module = use("exir", "to_edge")(exported()).to_backend(partitioner).exported_program().graph_module
    assert len([n for n in module.graph.nodes if n.op == "placeholder"]) == 1


def operator_support_helpers():
    dont, name, module = use(
        "exir.backend.operator_support", "DontPartition", "DontPartitionName", "DontPartitionModule"
    )
    graph = use("exir", "to_edge")(exported()).exported_program().graph
    relu = next(n for n in graph.nodes if "relu" in str(n.target))
    for support in (dont("aten.relu", exact=False), name(relu.name), dont(relu.target)):
        assert not support.is_node_supported({}, relu) and support.has_rejected_node()
    inside = module(instance_name="a", exact=False)
    linear = next(n for n in graph.nodes if "linear" in str(n.target) or "addmm" in str(n.target))
    assert not inside.is_node_supported({}, linear)


def delegate_mapping():
    builder = use("exir.backend.utils", "DelegateMappingBuilder")
    mapping = builder(generated_identifiers=True)
    assert mapping.insert_delegate_mapping_entry(handles=[3, None, 1]) == 0
    assert mapping.insert_delegate_mapping_entry(handles=5) == 1
    assert mapping.get_delegate_mapping() == {0: (1, 3), 1: (5,)}
    named = builder()
    named.insert_delegate_mapping_entry(handles=[2], identifier="conv")
    assert named.get_delegate_mapping() == {"conv": (2,)}
    for wrong in ({"handles": 1}, {"identifier": "x"}):
        try:
            named.insert_delegate_mapping_entry(**wrong)
        except Exception:
            continue
        raise AssertionError(f"{wrong} was accepted")


def named_data_store():
    store_class = use("exir._serialize._named_data_store", "NamedDataStore")
    store = store_class()
    store.add_named_data("a", b"12", alignment=4)
    store.add_named_data("b", b"12")
    store.add_named_data("a", b"12", alignment=8)
    output = store.get_named_data_store_output()
    assert len(output.buffers) == 1 and sorted(output.pte_data) == ["a", "b"]
    other = store_class()
    other.merge_named_data_store(output)
    assert sorted(other.get_named_data_store_output().pte_data) == ["a", "b"]
    try:
        store.add_named_data("a", b"other")
    except ValueError:
        return
    raise AssertionError("another value under the same key was accepted")


def named_data_of_a_backend():
    details, result = use("exir.backend.backend_details", "BackendDetails", "PreprocessResult")
    store_class = use("exir._serialize._named_data_store", "NamedDataStore")

    class DataDemo(details):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            store = store_class()
            store.add_named_data("weights", b"0123456789abcdef")
            return result(processed_bytes=b"x", data_store_output=store.get_named_data_store_output())

    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(_partitioner("DataDemo", lambda n: True))
    assert b"0123456789abcdef" in edge.to_executorch().buffer


def why_no_partition():
    why_class, reporter_class = use("exir.backend.utils", "WhyNoPartition", "WhyNoPartitionReporter")
    node = next(n for n in use("exir", "to_edge")(exported()).exported_program().graph.nodes if n.op == "call_function")
    logger, lines = logging.getLogger("steps"), []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    why_class(logger=logger)(node, "too large")
    assert any("too large" in line for line in lines), lines
    reporter = reporter_class()
    reporter.report_reject(node, "first")
    reporter.report_reject(node, "second")
    assert "first" in reporter.get_table_report() and "second" not in reporter.get_table_report()


def delegation_info():
    get = use("devtools.backend_debug", "get_delegation_info")
    edge = use("exir", "to_edge_transform_and_lower")(exported(Image(), PICTURE), partitioner=[xnnpack()()])
    info = get(edge.exported_program().graph_module)
    assert info.num_delegated_subgraphs >= 1 and info.num_delegated_nodes >= 2
    assert "delegated" in info.get_summary()


def config_partitioner():
    module = use("exir.backend.canonical_partitioners.config_partitioner")
    spec = use("exir.backend.partitioner", "DelegationSpec")
    _backend("ConfigDemo")

    class Mul(module.PartitionerConfig):
        target_name = "mul.Tensor"

        def check_constraints(self, node, ep):
            return True

        def get_node_and_deps(self, node, ep):
            return [node]

        def get_original_aten(self):
            return None

    partitioner = module.ConfigerationBasedPartitioner(spec("ConfigDemo", []), [Mul()])
    edge = use("exir", "to_edge")(exported(Sums(), XY)).to_backend(partitioner)
    assert edge.exported_program().graph_module.lowered_module_0.processed_bytes == b"mul"


def not_decomposed_for_a_backend():
    _backend("KeepDemo")
    partitioner = _partitioner("KeepDemo", lambda n: "logit" in str(n.target))
    partitioner.ops_to_not_decompose = lambda ep: ([torch.ops.aten.logit.default], lambda node: True)
    edge = use("exir", "to_edge_transform_and_lower")(exported(Logit(), X), partitioner=[partitioner])
    assert edge.exported_program().graph_module.lowered_module_0.processed_bytes == b"logit"


def transform_before_decomposition():
    _backend("EarlyDemo")
    partitioner = _partitioner("EarlyDemo", lambda n: False)
    seen = []
    partitioner.transform_for_pre_decomposition = lambda ep: (seen.append(ep), ep)[1]
    use("exir", "to_edge_transform_and_lower")(exported(), partitioner=[partitioner])
    assert len(seen) == 1


def xnnpack_configs():
    edge_config, backend_config = use(
        "backends.xnnpack.utils.configs", "get_xnnpack_edge_compile_config", "get_xnnpack_executorch_backend_config"
    )
    model = Image().eval()
    edge = use("exir", "to_edge")(exported(model, PICTURE), compile_config=edge_config()).to_backend(xnnpack()())
    same(run(edge.to_executorch(backend_config()).buffer, *PICTURE)[0], model(*PICTURE))


def xnnpack_precisions():
    precision = use("backends.xnnpack.partition.config.xnnpack_config", "ConfigPrecisionType")
    lower, model = use("exir", "to_edge_transform_and_lower"), Image().eval()
    for chosen in (precision.FP32, [precision.FP32, precision.STATIC_QUANT, precision.DYNAMIC_QUANT]):
        program = lower(exported(model, PICTURE), partitioner=[xnnpack()(config_precisions=chosen)]).to_executorch()
        same(run(program.buffer, *PICTURE)[0], model(*PICTURE))


def xnnpack_per_op():
    lower, model = use("exir", "to_edge_transform_and_lower"), Linears().eval()
    edge = lower(exported(model), partitioner=[xnnpack()(per_op_mode=True)])
    info = use("devtools.backend_debug", "get_delegation_info")(edge.exported_program().graph_module)
    assert info.num_delegated_subgraphs >= 2
    same(run(edge.to_executorch().buffer, *X)[0], model(*X))


def xnnpack_chosen_operators():
    configs = use("backends.xnnpack.partition.config")
    lower, model = use("exir", "to_edge_transform_and_lower"), Image().eval()
    edge = lower(exported(model, PICTURE), partitioner=[xnnpack()(configs=[configs.ConvolutionConfig])])
    info = use("devtools.backend_debug", "get_delegation_info")(edge.exported_program().graph_module)
    assert info.num_delegated_nodes >= 1 and info.num_non_delegated_nodes >= 1
    same(run(edge.to_executorch().buffer, *PICTURE)[0], model(*PICTURE))


def xnnpack_package_names():
    names = use("backends.xnnpack", "XnnpackPartitioner", "get_xnnpack_edge_compile_config")
    assert issubclass(xnnpack(), names[0])


def _quantized(**options: Any) -> Any:
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantizer, config = use(
        "backends.xnnpack.quantizer.xnnpack_quantizer", "XNNPACKQuantizer", "get_symmetric_quantization_config"
    )
    model = Image().eval()
    prepared = prepare_pt2e(export(model, PICTURE).module(), quantizer().set_global(config(**options)))
    prepared(*PICTURE)
    converted = convert_pt2e(prepared)
    program = use("exir", "to_edge_transform_and_lower")(export(converted, PICTURE), partitioner=[xnnpack()()])
    same(run(program.to_executorch().buffer, *PICTURE)[0], model(*PICTURE), 0.1)


def xnnpack_quantizer_static():
    _quantized()


def xnnpack_quantizer_per_channel():
    _quantized(is_per_channel=True)


def xnnpack_quantizer_dynamic():
    _quantized(is_per_channel=True, is_dynamic=True)


def xnnpack_quantizer_by_module():
    quantizer, config = use(
        "backends.xnnpack.quantizer.xnnpack_quantizer", "XNNPACKQuantizer", "get_symmetric_quantization_config"
    )
    one = quantizer()
    one.set_module_type(nn.Linear, config(is_per_channel=True))
    one.set_module_name("a", config())
    one.set_operator_type(torch.ops.aten.linear.default, config())
