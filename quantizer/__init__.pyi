from .pt2e import (
    ComposableQuantizer as ComposableQuantizer,
    DerivedQuantizationSpec as DerivedQuantizationSpec,
    EdgeOrNode as EdgeOrNode,
    FixedQParamsQuantizationSpec as FixedQParamsQuantizationSpec,
    QuantizationAnnotation as QuantizationAnnotation,
    QuantizationConfig as QuantizationConfig,
    QuantizationSpec as QuantizationSpec,
    QuantizationSpecBase as QuantizationSpecBase,
    Quantizer as Quantizer,
    SharedQuantizationSpec as SharedQuantizationSpec,
    convert_pt2e as convert_pt2e,
    prepare_pt2e as prepare_pt2e,
    prepare_qat_pt2e as prepare_qat_pt2e,
)
from .accuracy_control import (
    AccuracyResult as AccuracyResult,
    quantize_to_accuracy as quantize_to_accuracy,
)
from .candidates import (
    Candidates as Candidates,
    float_filter as float_filter,
)
from .config import (
    PRESETS as PRESETS,
    get_symmetric_quantization_config as get_symmetric_quantization_config,
    quantization_config as quantization_config,
)
from .embedding_quantizer import EmbeddingQuantizer as EmbeddingQuantizer
from .example import ExampleQuantizer as ExampleQuantizer
from .flow import (
    calibrate as calibrate,
    convert as convert,
    prepare as prepare,
    prepare_qat as prepare_qat,
    quantize as quantize,
)
from .layer_sweep import (
    SensitivityReport as SensitivityReport,
    sensitivity as sensitivity,
)
from .observers import (
    HistogramObserver as HistogramObserver,
    MSEObserver as MSEObserver,
    PercentileObserver as PercentileObserver,
)
from .weight_observers import (
    GroupwiseObserver as GroupwiseObserver,
    PerChannelMSEObserver as PerChannelMSEObserver,
)
from .xnnpack_quantizer import XNNPACKQuantizer as XNNPACKQuantizer
