"""Quantizers, and the flows around them, on torchao's PT2E: which tensors of a model become integers, and how.

>>> from executorch_py import quantizer  # doctest: +SKIP
>>> program = quantizer.quantize(model, example_inputs, "static_int8", calibration_data)  # doctest: +SKIP
>>> edge = et.to_edge_transform_and_lower(program, partitioner=[...])  # doctest: +SKIP

One file a quantizer: a table of patterns and a short class that walks it. What they share:

pt2e.py         torchao's classes and functions, the same objects; the only file that imports torchao
config.py       configurations: dtypes, observers, granularity; presets by name
observers.py    observers of activations that torchao lacks
weight_observers.py  observers of weights
group_rounding.py    integers of weights in groups, by the weights alone or by the layer's output
input_moments.py     what a calibration sees of the inputs of such layers
matching.py     finds chains of operators and says what a node belongs to
annotation.py   how the tensors of a matched operator get their specs
chains.py       where integers go on, and which sums and products are part of a function
linear_forms.py products with a constant, written as linear layers before they are annotated
expansion.py    operators that are taken apart before they are annotated (LSTM, GRU, attention)
half_range.py   what leaves float16's range
gates.py        what stays in float in the steps of a GRU
flow.py         quantize, prepare, calibrate, convert
pt2e_flow.py    the same under torchao's names, for modules
batch_norm.py   folds batch norms, after training and while it lasts
checks.py       what must hold before and after calibration
smallest_scales.py  below which no scale goes
biases.py       biases as integer kernels add them: in 32 bits, in whole steps
insertion.py    observers in an annotated graph, quantize and dequantize in their place
lifting.py      the converted module as an ExportedProgram, with its source lines
torch_quantized.py   models that torch quantized itself, as ordinary modules
torch_values.py      the values and operators of such models
torch_recurrent.py   their recurrent layers, step by step
torch_weights.py     their packed weights, as buffers
candidates.py    variants of one quantized model with other layers in float
layer_sweep.py   which layers lose most: each quantized alone
accuracy_control.py  the fastest variant that keeps a metric

Quantizers and backends know nothing of each other: the quantize and dequantize nodes in the graph are all that passes between
them. Names are loaded on first use, so that importing this package imports neither torch nor torchao.
"""

from executorch_py import _lazy

__getattr__, __dir__, __all__ = _lazy.attach(__name__, __file__)
