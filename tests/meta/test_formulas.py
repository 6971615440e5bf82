"""A formula that stands in two languages is one: the step of a GRU, which a quantizer leaves in float for a pass."""

import re

from repository import ROOT


def formula(path: str, pattern: str) -> dict[str, str]:
    """What stands behind each name of the formula that ``pattern`` finds in a file."""
    found = re.search(pattern, (ROOT / path).read_text(encoding="utf-8"), re.DOTALL)
    assert found, path
    pairs = (line.partition(" = ")[::2] for line in found[1].strip().splitlines())
    return {name.strip(): term.strip() for name, term in pairs}


def test_a_step_of_a_gru_is_the_same_for_the_quantizer_and_the_compiler():
    ours = formula("quantizer/rules/gates.py", r'_STEP = Pattern\("""(.*?)"""\)')
    compiled = formula("src/cpp/passes/fuse_gru_gates.cpp", r'kStep = R"\((.*?)\)"')
    assert len(ours) == 4

    def without_sources(term: str) -> str:
        """What the gates are made of is anything for the quantizer."""
        return re.sub(r"\b[a-z]\w*\b(?!\()", lambda name: name[0] if name[0] in ours else "_", term)

    assert ours == {name: without_sources(compiled[name]) for name in ours}
