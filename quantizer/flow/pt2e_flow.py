"""prepare_pt2e, prepare_qat_pt2e and convert_pt2e, as torchao has them, with the batch norms folded by batch_norm.py.

torchao folds a batch norm whoever else reads the layer's result or its weight. These readers then get other numbers. It
fails at transposed convolutions in groups. While a model trains, its norms have an eps and a momentum of torchao's.

>>> prepared = prepare_pt2e(torch.export.export(model, example).module(), quantizer)  # doctest: +SKIP
>>> prepared(*sample)  # doctest: +SKIP
>>> converted = convert_pt2e(prepared)  # doctest: +SKIP
"""

from executorch_py.quantizer.calibration.prepared_graphs import (
    convert_graph,
    prepare_graph,
    prepare_graph_for_training,
)
from executorch_py.quantizer.rules.lifting import LazyGraphModule
from executorch_py.quantizer.rules.loops import given_to_bodies
from executorch_py.quantizer.spec.pt2e import Quantizer
from torch import fx


def prepare_pt2e(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """An exported module with observers, to be shown samples, then :func:`convert_pt2e`; ``model`` is used up.

    Args:
        model: ``torch.export.export(…).module()`` of a model in evaluation mode.
        quantizer: Says what is observed.
    """
    return _written(prepare_graph(model, quantizer))


def prepare_qat_pt2e(model: fx.GraphModule, quantizer: Quantizer) -> fx.GraphModule:
    """An exported module with fake quantization and folded batch norms, to be trained; ``model`` is used up.

    ``train()`` and ``eval()`` work on it.

    Args:
        model: ``torch.export.export(…).module()`` of a model in training mode.
        quantizer: Says what is quantized; with a configuration for training.
    """
    return _written(prepare_graph_for_training(model, quantizer))


def convert_pt2e(
    model: fx.GraphModule, use_reference_representation: bool = False, fold_quantize: bool = True
) -> fx.GraphModule:
    """A prepared module with quantize and dequantize nodes in place of its observers; ``model`` is used up.

    Args:
        model: What :func:`prepare_pt2e` or :func:`prepare_qat_pt2e` made, or torchao's functions of these names.
        use_reference_representation: As in torchao: integer arithmetic in place of the nodes.
        fold_quantize: Weights are stored as integers.
    """
    converted = convert_graph(model, use_reference_representation, fold_quantize)
    given_to_bodies(converted)
    return _written(converted)


def _written(module: fx.GraphModule) -> fx.GraphModule:
    """A module whose code stands, since torch.export refuses to look into one that writes it when it runs."""
    LazyGraphModule.force_recompile(module)
    return module
