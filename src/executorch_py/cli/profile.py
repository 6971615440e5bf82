"""``etpy profile``: where the time of a program goes."""

from __future__ import annotations

import argparse
import json
from typing import Any

from executorch_py.errors import InvalidArgumentError

from .recording import add_recording, inspector_of
from .terminal import add_json, show

__all__ = ["add"]


def add(commands: Any) -> None:
    """Adds the command."""
    profile = commands.add_parser("profile", help="where the time goes, by line, module, operator or event")
    add_recording(profile)
    profile.add_argument(
        "--by", choices=("line", "module", "operator", "event"), help="line with an ETRecord, operator without"
    )
    profile.add_argument("--roofline", action="store_true", help="how near each instruction is to what the machine can")
    profile.add_argument("--html", help="a page to write, with pictures")
    profile.add_argument("--tsv", help="a file of tab-separated values to write")
    add_json(profile)
    profile.set_defaults(run=_profile)


def _profile(arguments: argparse.Namespace) -> int:
    asked = "--roofline" if arguments.roofline else f"--by {arguments.by}"
    if not arguments.etrecord and (arguments.roofline or arguments.by in ("line", "module")):
        raise InvalidArgumentError(
            f"{asked} needs --etrecord FILE, as etpy export --etrecord FILE or program.get_etrecord().save(FILE) "
            "writes it"
        )
    inspector = inspector_of(arguments)
    if arguments.tsv:
        inspector.save_data_to_tsv(arguments.tsv)
    if arguments.html:
        inspector.to_html(arguments.html, title=arguments.program)
    by = arguments.by or ("line" if arguments.etrecord else "operator")
    table = None if by == "event" else getattr(inspector, f"by_{by}")()
    roofline = inspector.roofline() if arguments.roofline else None
    parts = [inspector.table() if table is None else str(table), *([] if roofline is None else [str(roofline)])]
    show(arguments, "\n".join(parts), lambda: _told(inspector, by, table))
    return 0


def _told(inspector: Any, by: str, table: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(inspector.to_json())
    return told if table is None else {**told, f"by_{by}": table.as_dicts()}
