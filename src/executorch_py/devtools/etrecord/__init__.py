"""ETRecord: what tools need beside the ``.pte``: the graphs it came from, and what each instruction stands for.

record.py is the object, archive.py its file, a zip in the published layout that the published package reads as well.
"""

from executorch_py.devtools.etrecord.record import ETRecord, generate_etrecord, parse_etrecord

__all__ = ["ETRecord", "generate_etrecord", "parse_etrecord"]
