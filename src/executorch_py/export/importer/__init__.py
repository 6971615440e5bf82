"""Edge to the compiler's IR: programs.py imports, builder.py says what its parts need of it."""
