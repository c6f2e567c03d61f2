"""The paper's experiments, each one file: data and models in, results/*.json, figures and a page out."""
