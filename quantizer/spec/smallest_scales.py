"""The smallest scale that a tensor gets: no step of its integers is smaller.

What is smaller than some of these steps becomes zero, so the scales that are measured have room for every model's
numbers. Others must not be that small. The scale of a sum of products is that of its input times that of its weight,
and integer kernels multiply by it over that of the result. That ratio has bounds (256 in delegates).
"""

#: Scales that are measured, on samples, at the call or of weights. Products of two are floats still.
MEASURED = 2**-60
#: Activations that were zero on all samples, and while a model trains. Published configurations have 2**-12 for all
#: activations, which rounds values below a thousandth to zero.
ACTIVATION = 2**-20
#: Weights of which a channel is zero, and while they train.
WEIGHT = 2**-24
