"""Models that torch quantized itself, as ordinary modules."""
