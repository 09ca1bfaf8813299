"""Phantom scans, and the whole path from them to a report."""
