"""Which nodes of the Edge program an instruction stands for: the ETRecord's maps, checked against the ETDump."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx

from executorch_py.devtools.etrecord import ETRecord
from executorch_py.devtools.inspector.events import AROUND_A_DELEGATE, Event, EventBlock
from executorch_py.errors import InvalidArgumentError, InvalidProgramError
from executorch_py.exir.backend.utils import nodes_with_bodies
from executorch_py.graphs.macs import macs_of
from executorch_py.graphs.sources import source_of

__all__ = ["RecordMap"]

_KERNEL = "native_call_"
#: Kernels of what passes add beside an operator, and the word in the name of an operator that has this kernel itself.
#: So is arithmetic on sizes and counters, executorch_prim.
_ADDED = {"_clone_dim_order": "clone", "copy_": "copy", "_empty_dim_order": "empty", "select_copy": "select"}
#: Kernels that prepare the operands of a fused attention, beside its softmax.
_OPERANDS_OF_ATTENTION = {"permute_copy", "view_copy", "logical_not", "add"}


class RecordMap:
    """An ETRecord, ready to say what the instructions of its methods are."""

    def __init__(self, record: ETRecord, dump_name: str, record_name: str) -> None:
        """Reads the graphs.

        Args:
            record: The record.
            dump_name: The ETDump, for errors.
            record_name: The record's file, for errors.
        """
        self._record, self._dump_name, self._record_name = record, dump_name, record_name
        self._nodes = {name: nodes_by_handle(program) for name, program in record.edge_programs().items()}

    def connect(self, block: EventBlock) -> None:
        """Says of each event of a block what it stands for.

        Raises:
            InvalidArgumentError: The ETDump is one of another program.
            InvalidProgramError: A debug handle is one of no node.
        """
        events = [event for event in block.events if event._instruction_id is not None]
        if not events:
            return
        block.method = self._method_of(block.method, events)
        for event in events:
            event.debug_handles = self._handles(block.method, event)
            event.num_outputs = self._num_outputs(block.method, event)
            if event.is_delegated_op or event.name == AROUND_A_DELEGATE:
                event.delegate_backend_name = self._delegate(block.method, event).get("name")
            self._describe(block.method, event)
        outputs = (self._record._reference_outputs or {}).get(block.method)
        if outputs:
            index = block.bundled_input_index if block.bundled_input_index not in (None, -1) else 0
            block.reference_output = list(outputs[index]) if isinstance(outputs[0], (list, tuple)) else list(outputs)

    def _method_of(self, told: str, events: Sequence[Event]) -> str:
        """The method whose instructions these are: ``forward`` where the ETDump tells none and several fit."""
        known = self._record.debug_handle_map
        if told and told not in known:
            reasons = dict.fromkeys(known, f"is not '{told}', which ran")
        else:
            reasons = {name: self._misfit(name, events) for name in ([told] if told else known)}
        fitting = [name for name, reason in reasons.items() if not reason]
        if fitting:
            return "forward" if "forward" in fitting else fitting[0]
        why = "; ".join(f"method '{name}' {reason}" for name, reason in reasons.items()) or "it has no method"
        raise InvalidArgumentError(
            f"{self._dump_name} and {self._record_name} are of different programs: of the ETRecord, {why}. "
            "Take the ETRecord of the program that ran, made by the same to_executorch()"
        )

    def _misfit(self, method: str, events: Sequence[Event]) -> str:
        """Why these are no events of a method; "" when they may be."""
        known = self._record.debug_handle_map[method]
        kernels = self._record.instructions.get(method)
        count = len(kernels) if kernels is not None else max(known, default=-1) + 1
        for event in events:
            number = event._instruction_id
            if number is None or not 0 <= number < count:
                return f"has {count} instructions, and instruction {number} ran"
            if kernels is None:
                continue
            kernel = kernels[number].rpartition("::")[2]
            if event.name.startswith(_KERNEL) and event.name[len(_KERNEL) :] != kernel:
                return f"calls {kernel or 'no kernel'} in instruction {number}, and {event.name[len(_KERNEL) :]} ran"
            if event.name == AROUND_A_DELEGATE and kernel:
                return f"calls {kernel} in instruction {number}, and a delegate ran"
        return ""

    def _delegate(self, method: str, event: Event) -> Mapping[str, Any]:
        """What the record has of the delegate that an instruction calls."""
        called = event._instruction_id
        return {} if called is None else self._record.delegate_map.get(method, {}).get(called, {})

    def _num_outputs(self, method: str, event: Event) -> int:
        """How many of the last values are results: a delegate as a whole records its inputs, too."""
        counts = (self._record._instruction_id_to_num_outs_map or {}).get(method, {})
        own = event._instruction_id
        count = counts.get(own, counts.get(str(own))) if event.name == AROUND_A_DELEGATE else None
        return len(event.debug_data) if count is None else count

    def _handles(self, method: str, event: Event) -> Sequence[int] | None:
        """Debug handles of an event."""
        if not event.is_delegated_op:
            called = event._instruction_id
            return None if called is None else listed(self._record.debug_handle_map[method].get(called))
        inner, own = self._delegate(method, event).get("delegate_map", {}), event.delegate_debug_identifier
        return listed(inner.get(own, inner.get(str(own))))

    def _describe(self, method: str, event: Event) -> None:
        described: list[fx.Node] = []
        for handle in listed(event.debug_handles) or ():
            nodes = self._nodes.get(method, {}).get(handle)
            if not nodes:
                raise InvalidProgramError(
                    f"{self._record_name} names the debug handle {handle} for instruction {event._instruction_id} of "
                    f"method '{method}', and no node of its Edge program has it; write the ETRecord again with "
                    "get_etrecord().save()"
                )
            described += nodes
        event.is_added = self._is_added(method, event, described)
        for node in described:
            if not event.is_added:
                event.op_types.append(str(node.target))
                event.macs.append(macs_of(node))
            event.stack_traces[node.name] = node.meta.get("stack_trace") or ""
            event.module_hierarchy[node.name] = node.meta.get("nn_module_stack") or {}
            event.sources.append(source_of(node))

    def _is_added(self, method: str, event: Event, nodes: Sequence[fx.Node]) -> bool:
        """Whether none of the nodes is what the instruction computes."""
        kernels, number = self._record.instructions.get(method), event._instruction_id
        if not nodes or event.is_delegated_op or number is None or not event.name.startswith(_KERNEL):
            return False
        kernel = kernels[number] if kernels is not None else event.name[len(_KERNEL) :]
        namespace, _, name = kernel.partition(".")[0].rpartition("::")
        if name in _OPERANDS_OF_ATTENTION:
            return all("softmax" in str(node.target) for node in nodes)
        word = name if namespace == "executorch_prim" else _ADDED.get(name)
        return word is not None and not any(word in str(node.target) for node in nodes)


def nodes_by_handle(program: Any) -> dict[int, list[fx.Node]]:
    """Debug handle -> the nodes that carry it, in the order of the graph."""
    found: dict[int, list[fx.Node]] = {}
    for node in nodes_with_bodies(program.graph_module):
        if node.op == "call_function":
            for handle in listed(node.meta.get("debug_handle")) or ():
                found.setdefault(handle, []).append(node)
    return found


def listed(handles: int | Sequence[int] | None) -> list[int] | None:
    """Debug handles as a list; 0 stands for none."""
    if handles is None:
        return None
    several = [handles] if isinstance(handles, int) else handles
    return [one for one in several if one != 0]


def modules_of(event: Event) -> list[Mapping[str, Any]]:
    """The stack of modules of each of an event's operators."""
    return list(event.module_hierarchy.values())
