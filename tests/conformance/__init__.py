"""PyTorch's own databases of operators, modules and exportable programs, run through the whole of this package.

Each case goes the way that a user's model goes: ``torch.export`` -> Edge -> ``.pte`` -> C++ runtime, and its outputs
are compared with eager PyTorch. ``python -m tests.conformance`` (``make conformance``) runs everything and writes the
table; ``test_subset.py`` runs a part of it with the other tests.

    samples.py        the cases: which entries, which element types, how many samples
    adapters.py       one case as a module and its inputs
    case.py           one case: eager, export, lower, run, compare -> an Outcome
    closeness.py      when two outputs are equal: tolerances, random operators, answers that are not unique
    pool.py           worker processes, time limits, crashes
    exceptions.py     the cases that are known to fail, each with its reason
    report.py         summary, Markdown table, JSON
"""
