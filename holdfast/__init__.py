"""Holdfast keeps large-model training alive on Amazon SageMaker, serverlessly."""
