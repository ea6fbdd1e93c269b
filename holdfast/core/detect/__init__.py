"""What counts as hung: one policy a file, put together in `health.py`."""
