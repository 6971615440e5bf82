"""ETDumps: what happened during runs of a program. schema_flatcc.py is the file as plain data, serialize.py reads its bytes."""
