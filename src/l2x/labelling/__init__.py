"""Asking the model about many rows: paced, side by side, and never for nothing."""
