from .partitioner import TOSAPartitioner as TOSAPartitioner
from .preprocess import BACKEND_ID as BACKEND_ID
