"""What every other part may use: arrays in batches, files written whole, one progress bar."""
