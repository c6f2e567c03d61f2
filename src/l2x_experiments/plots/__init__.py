"""Figures that only the reports of experiments draw."""
