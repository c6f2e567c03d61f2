"""Rows of a JSON request: checked, joined into batches, turned into what explainer and model read."""
