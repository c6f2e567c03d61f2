"""Tables larger than memory: batches in, batches out."""
