from .comparison import (
    PruningReport as PruningReport,
)
from .comparison import (
    report as report,
)
from .masks import (
    LayerSparsity as LayerSparsity,
)
from .masks import (
    make_permanent as make_permanent,
)
from .masks import (
    masked_parameters as masked_parameters,
)
from .masks import (
    sparsity as sparsity,
)
from .neurons import (
    NeuronPruning as NeuronPruning,
)
from .neurons import (
    prune_heads as prune_heads,
)
from .neurons import (
    prune_neurons as prune_neurons,
)
from .pruner import (
    Pruner as Pruner,
)
from .pruner import (
    prune_weights as prune_weights,
)
from .schedule import Schedule as Schedule
