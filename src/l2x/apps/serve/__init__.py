"""The service: explanations over HTTP, batched as they arrive, and a page to play with them."""
