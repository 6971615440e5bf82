"""Tools for developers: comparing a program with its model (:mod:`executorch_py.devtools.validate`)."""
