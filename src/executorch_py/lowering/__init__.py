"""From exported programs to bytes: the managers with the published names, and delegation.

edge.py        to_edge, to_edge_transform_and_lower, EdgeProgramManager
passes.py      users' passes on fx programs
delegation.py  partitioners' tags -> compiled parts; cut.py does the surgery
program.py     ExecutorchProgramManager: bytes, files, debug information
config.py      EdgeCompileConfig, ExecutorchBackendConfig
"""
