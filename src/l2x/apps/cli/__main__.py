"""The command line as `python -m l2x.apps.cli`."""

from l2x.apps.cli import app

if __name__ == "__main__":
    app()
