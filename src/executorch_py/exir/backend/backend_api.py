"""``to_backend`` under its published name: by backend id for a whole program, by partitioner for the parts it tags."""

from executorch_py.lowering.delegation import to_backend

__all__ = ["to_backend"]
