"""A fitted explainer as an ONNX file, for servers that have neither Python nor torch."""
