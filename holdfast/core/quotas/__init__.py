"""Quotas: what an account wants of Service Quotas, what it has, and what a run needs of it. Pure."""
