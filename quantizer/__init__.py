"""Quantizers, and the flows around them, on torchao's PT2E: which tensors of a model become integers, and how.

>>> from executorch_py import quantizer  # doctest: +SKIP
>>> program = quantizer.quantize(model, example_inputs, "static_int8", calibration_data)  # doctest: +SKIP
>>> edge = et.to_edge_transform_and_lower(program, partitioner=[...])  # doctest: +SKIP

One file a quantizer here: a table of patterns and a short class that walks it. What they share lies below:

spec/          what a tensor becomes
    pt2e.py         torchao's classes and functions, the same objects; the only file that imports torchao
    config.py       configurations: dtypes, observers, granularity; presets by name
    observers.py    observers of activations that torchao lacks
    weight_observers.py  observers of weights
    group_rounding.py    integers of weights in groups, by the weights alone or by the layer's output
    smallest_scales.py   below which no scale goes
rules/         which tensors
    matching.py     finds chains of operators and says what a node belongs to
    annotation.py   how the tensors of a matched operator get their specs
    chains.py       where integers go on, and which sums and products are part of a function
    linear_forms.py products with a constant, written as linear layers before they are annotated
    expansion.py    operators that become others before they are annotated (attention, cells; recurrent layers: loops)
    gates.py        what stays in float in the steps of a GRU
    loops.py        recurrent layers as loops, and what bodies of loops know
    input_parts.py  parts of an input that share its scale
    lifting.py      the converted module as an ExportedProgram, with its source lines
calibration/   graphs with observers
    insertion.py    observers in an annotated graph, quantize and dequantize in their place
    prepared_graphs.py   both for a graph with the bodies of its loops
    observer_calls.py    the calls of observers, and what they look at
    checks.py       what must hold before and after calibration
    batch_norm.py   folds batch norms, after training and while it lasts
    torchao_folding.py   the same when torchao's own functions are called, in training too
    fake_quantization.py what is trained is what is converted
    half_range.py   what leaves float16's range
    input_moments.py     what a calibration sees of the inputs of layers with groups
    biases.py       biases as integer kernels add them: in 32 bits, in whole steps
flow/          the ways through
    flow.py         quantize, prepare, calibrate, convert
    pt2e_flow.py    the same under torchao's names, for modules
search/        which layers stay in float
    candidates.py   variants of one quantized model with other layers in float
    layer_sweep.py  which layers lose most: each quantized alone
    fallbacks.py    what takes the place of integers
    accuracy_control.py  the fastest variant that keeps a metric
torch_models/  models that torch quantized itself, as ordinary modules
    torch_quantized.py   the way in
    torch_values.py      the values and operators of such models
    torch_recurrent.py   their recurrent layers, as loops
    torch_weights.py     their packed weights, as buffers

matching.py and annotation.py at the top give quantizers of your own the names that they need of the rules.

Quantizers and backends know nothing of each other: the quantize and dequantize nodes in the graph are all that passes
between them. Names are loaded on first use, so that importing this package imports neither torch nor torchao.
"""

from executorch_py import _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, __file__)
