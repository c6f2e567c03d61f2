"""The tokenizer of an explainer of texts, as the JSON that Hugging Face's tokenizers read in any language."""

from __future__ import annotations

from l2x.errors import require
from l2x.features.texts import TextView
from l2x.features.vocabulary import PAD, SPECIAL, TAG, word_tokenizer


def tokenizer_json(view: TextView) -> str:
    """Tags are blanked, and of `Words` texts are cut and padded to the view's length: ids as the graph reads
    them. `Sentences` have to be split first; each is then cut and padded to its words."""
    tokenizers = require("tokenizers", extra="text")
    found = word_tokenizer(view.vocabulary_, lowercase=view.lowercase)
    normalizers = tokenizers.normalizers
    steps = [normalizers.Replace(tokenizers.Regex(TAG.pattern), " ")]
    if view.lowercase:
        steps.append(normalizers.Lowercase())
    found.normalizer = normalizers.Sequence(steps)
    length = getattr(view, "words", view.length)
    found.enable_truncation(length)
    found.enable_padding(length=length, pad_id=PAD, pad_token=SPECIAL[PAD])
    return str(found.to_str(pretty=False))
