"""Selector and predictor for each feature view; the paper's architectures are the defaults."""
