"""The command line as `python -m l2x.cli`."""

from l2x.cli import app

if __name__ == "__main__":
    app()
