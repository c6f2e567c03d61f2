"""Helpers without a subject of their own: arrays, ranking, atomic files, progress, a registry."""
