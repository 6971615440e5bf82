"""``etpy profile``: where the time of a program goes."""

from __future__ import annotations

import argparse
import json
from typing import Any

from .recording import add_recording, inspector_of

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
    profile.add_argument("--json", action="store_true", help="print all events as JSON")
    profile.set_defaults(run=_profile)


def _profile(arguments: argparse.Namespace) -> int:
    inspector = inspector_of(arguments)
    if arguments.tsv:
        with open(arguments.tsv, "w", encoding="utf-8") as file:
            inspector.save_data_to_tsv(file)
    if arguments.html:
        inspector.to_html(arguments.html, title=arguments.program)
    by = arguments.by or ("line" if arguments.etrecord else "operator")
    if arguments.json:
        told = json.loads(inspector.to_json())
        if by != "event":
            told[f"by_{by}"] = getattr(inspector, f"by_{by}")().as_dicts()
        print(json.dumps(told, indent=2))
        return 0
    if by == "event":
        inspector.print_data_tabular()
    else:
        print(getattr(inspector, f"by_{by}")())
    if arguments.roofline:
        print(inspector.roofline())
    return 0
