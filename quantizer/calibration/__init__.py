"""Graphs with observers: how they get them, what is checked of them, and how integers take their place."""
