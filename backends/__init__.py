"""Backends: each folder compiles parts of a program for one device and runs them. README.md says how to add one."""
