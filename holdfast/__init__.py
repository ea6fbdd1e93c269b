"""Holdfast keeps large-model training alive on Amazon SageMaker, serverlessly."""

__version__ = "0.1.0"
