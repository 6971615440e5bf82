"""The Edge dialect: its operators, the check of a graph, custom operators, and those that change their arguments."""
