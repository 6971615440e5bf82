"""Ready-made ways to form partitions."""
