"""Words that nobody would call a reason."""

from __future__ import annotations

from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

# scikit-learn's stop words; but negations turn what they stand beside, and may well decide.
FILLER = ENGLISH_STOP_WORDS - {"no", "not"}
