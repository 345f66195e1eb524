"""Experiments, one a file: its claims, settings, run, check and drawing."""
