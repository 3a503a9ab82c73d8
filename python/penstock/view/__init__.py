"""Profiles, timelines and the demo."""
