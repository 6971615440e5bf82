"""ETDumps: what happened in runs of a program. schema_flatcc.py is the file as plain data, serialize.py reads bytes."""
