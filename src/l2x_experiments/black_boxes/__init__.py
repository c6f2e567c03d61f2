"""The networks that experiments train on labels and then explain."""
