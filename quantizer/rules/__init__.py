"""What of a graph a quantizer annotates: chains of operators, and how their tensors get specs."""
