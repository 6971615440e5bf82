from .ethos_u import EthosUPartitioner as EthosUPartitioner
from .ethos_u import OffloadReport as OffloadReport
from .partitioner import TOSAPartitioner as TOSAPartitioner
from .preprocess import BACKEND_ID as BACKEND_ID
from .vela import VelaOptions as VelaOptions
