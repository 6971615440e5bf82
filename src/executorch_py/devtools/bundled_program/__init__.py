"""Bundled programs: a ``.pte`` with test cases, inputs and their expected outputs, in one ``.bpte`` file.

config.py is what a user gives, core.py checks it against the program, schema/ is the file as plain data, serialize.py
writes and reads its bytes. The format is the published one (src/cpp/schema/bundled_program.fbs).
"""
