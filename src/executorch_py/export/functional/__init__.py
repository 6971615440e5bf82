"""Training IR to functional ATen: no operator changes a tensor, changes of state are outputs."""
