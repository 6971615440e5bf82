"""The public names of the developer tools, for type checkers; ``_lazy.py`` reads where each comes from."""

from .aten_check import AtenReport as AtenReport
from .aten_check import AtenRow as AtenRow
from .aten_check import compare_with_aten as compare_with_aten
from .bundled_program.config import MethodTestCase as MethodTestCase
from .bundled_program.config import MethodTestSuite as MethodTestSuite
from .bundled_program.core import BundledProgram as BundledProgram
from .divergence import Divergence as Divergence
from .divergence import first_divergence as first_divergence
from .etrecord.record import ETRecord as ETRecord
from .etrecord.record import generate_etrecord as generate_etrecord
from .etrecord.record import parse_etrecord as parse_etrecord
from .inspector.events import Event as Event
from .inspector.events import EventBlock as EventBlock
from .inspector.events import PerfData as PerfData
from .inspector.events import TimeScale as TimeScale
from .inspector.inspector import Inspector as Inspector
from .inspector.profile import Machine as Machine
from .inspector.values import compare_results as compare_results
from .memory_peaks import MemoryReport as MemoryReport
from .memory_peaks import memory_report as memory_report
from .program_comparison import ProgramComparison as ProgramComparison
from .program_comparison import compare as compare
