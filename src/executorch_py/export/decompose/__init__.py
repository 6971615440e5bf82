"""Functional ATen to Edge, operator by operator: decomposer.py walks, rewrites.py and the forms are its rules."""
