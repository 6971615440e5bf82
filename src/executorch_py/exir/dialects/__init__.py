"""Names of the Edge dialect's operators."""
