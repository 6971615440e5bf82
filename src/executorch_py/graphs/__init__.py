"""What is read from fx graphs and written to them, whatever dialect they are in.

sources.py          where a node comes from in the user's program
rewriting.py        writes a new graph from an old one, and the ExportedProgram around it
patterns.py         several nodes that compute one thing, as formulas
nodes.py            what quantize and dequantize nodes say
quantization.py     to what a tensor is quantized, as data
modules.py          programs as modules, whatever names their parameters have
state.py            buffers of graphs that are run to be measured
macs.py             multiply-accumulates, operator by operator
modes.py            whether a module or a program trains
training.py         programs that return gradients
program_state.py    parameters, buffers and constants of all methods of a program
torch_quantized.py  whether torch has quantized a model itself
dtypes.py           the file format's numbers of dtypes
"""
