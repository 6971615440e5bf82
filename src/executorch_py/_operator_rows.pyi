ROWS: dict[str, tuple[str, list[str], str, str, str, list[str], str, str, str, bool, list[str], list[str]]]
