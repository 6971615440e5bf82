from .accuracy_control import (
    AccuracyResult as AccuracyResult,
)
from .accuracy_control import (
    quantize_to_accuracy as quantize_to_accuracy,
)
from .candidates import (
    Candidates as Candidates,
)
from .candidates import (
    float_filter as float_filter,
)
from .config import (
    PRESETS as PRESETS,
)
from .config import (
    get_symmetric_quantization_config as get_symmetric_quantization_config,
)
from .config import (
    quantization_config as quantization_config,
)
from .embedding_quantizer import EmbeddingQuantizer as EmbeddingQuantizer
from .example import ExampleQuantizer as ExampleQuantizer
from .flow import (
    calibrate as calibrate,
)
from .flow import (
    convert as convert,
)
from .flow import (
    prepare as prepare,
)
from .flow import (
    prepare_qat as prepare_qat,
)
from .flow import (
    quantize as quantize,
)
from .layer_sweep import (
    SensitivityReport as SensitivityReport,
)
from .layer_sweep import (
    sensitivity as sensitivity,
)
from .observers import (
    HistogramObserver as HistogramObserver,
)
from .observers import (
    MSEObserver as MSEObserver,
)
from .observers import (
    PercentileObserver as PercentileObserver,
)
from .pt2e import (
    ComposableQuantizer as ComposableQuantizer,
)
from .pt2e import (
    DerivedQuantizationSpec as DerivedQuantizationSpec,
)
from .pt2e import (
    EdgeOrNode as EdgeOrNode,
)
from .pt2e import (
    FixedQParamsQuantizationSpec as FixedQParamsQuantizationSpec,
)
from .pt2e import (
    QuantizationAnnotation as QuantizationAnnotation,
)
from .pt2e import (
    QuantizationConfig as QuantizationConfig,
)
from .pt2e import (
    QuantizationSpec as QuantizationSpec,
)
from .pt2e import (
    QuantizationSpecBase as QuantizationSpecBase,
)
from .pt2e import (
    Quantizer as Quantizer,
)
from .pt2e import (
    SharedQuantizationSpec as SharedQuantizationSpec,
)
from .pt2e_flow import (
    convert_pt2e as convert_pt2e,
)
from .pt2e_flow import (
    prepare_pt2e as prepare_pt2e,
)
from .pt2e_flow import (
    prepare_qat_pt2e as prepare_qat_pt2e,
)
from .torch_quantized import from_torch_quantized as from_torch_quantized
from .weight_observers import (
    GroupwiseObserver as GroupwiseObserver,
)
from .weight_observers import (
    PerChannelMSEObserver as PerChannelMSEObserver,
)
from .xnnpack_quantizer import XNNPACKQuantizer as XNNPACKQuantizer
