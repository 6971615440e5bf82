"""What the published tutorials do, as small programs with the root of the imports as a parameter.

A step asserts what the documentation says of it, not only that names exist. ``STEPS`` has all of them by name.
"""

from . import backends, dialects, exporting, passes, quantizing, recipes, tools, tutorials

STEPS = {
    name: step
    for module in (exporting, passes, dialects, backends, quantizing, recipes, tools, tutorials)
    for name, step in vars(module).items()
    if callable(step)
    and getattr(step, "__module__", "") == module.__name__
    and not name.startswith("_")
    and not isinstance(step, type)
}
