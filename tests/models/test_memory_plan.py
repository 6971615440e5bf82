"""Planned bytes against the largest sum of live bytes, both read from the file, for every model of the zoo."""

import pytest

import executorch_py as et
from tests.models.file_plan import plans
from tests.models.zoo import ZOO

pytestmark = pytest.mark.slow

PERMITTED = 1.06


@pytest.mark.parametrize("name", ZOO)
def test_plan_is_within_six_percent_of_live_bytes(name: str) -> None:
    exported = {method: made.export() for method, made in ZOO[name]().items()}
    program = et.to_edge_transform_and_lower(exported).to_executorch().buffer
    for plan in plans(bytes(program)):
        assert plan.live > 0
        assert plan.live <= plan.planned + 64, "a plan below what is live at once cannot be right"
        ratio = plan.planned / plan.live
        print(f"{name}.{plan.method}: planned {plan.planned}, live {plan.live}, ratio {ratio:.4f}")
        assert ratio <= PERMITTED, f"{name}.{plan.method}: {plan.planned} bytes planned, {plan.live} live at once"
