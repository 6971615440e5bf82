"""The ways from a model to a quantized program: flow.py for programs, pt2e_flow.py under torchao's names."""
