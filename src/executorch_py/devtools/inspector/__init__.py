"""What a program did while it ran: events with their times and values, and the lines of Python they come from.

events.py groups an ETDump's events, values.py reads values out of the debug buffer, record_map.py finds the nodes that
an instruction stands for, inspector.py is the way in. reference.py and numerical_comparator/ compare values with the
graph's.
"""

from executorch_py.devtools.inspector.events import Event, EventBlock, PerfData, TimeScale
from executorch_py.devtools.inspector.inspector import Inspector
from executorch_py.devtools.inspector.values import compare_results

__all__ = ["Event", "EventBlock", "Inspector", "PerfData", "TimeScale", "compare_results"]
