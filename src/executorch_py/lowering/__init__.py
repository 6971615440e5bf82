"""From exported programs to bytes: the managers with the published names, and delegation.

edge.py                    to_edge, to_edge_transform_and_lower, EdgeProgramManager
passes.py                  users' passes on fx programs; pass_manager.py runs several under the published names
delegation.py              partitioners' tags -> compiled parts; extraction.py does the surgery
delegated.py               a program after partitioning
lowered_backend_module.py  a compiled part, which can be a program of its own
delegation_report.py       what went to which backend, and why not the rest; delegation_table.py holds and shows it
program.py                 ExecutorchProgramManager: bytes, files, debug information
config.py                  EdgeCompileConfig, ExecutorchBackendConfig
"""
