"""Selector and predictor for each feature view, and the recipes that train them: ours and the paper's."""
