"""Which layers stay in float: variants of one quantized model, measured layer by layer."""
