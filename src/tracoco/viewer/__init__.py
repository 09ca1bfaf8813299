"""Scans, labels and predictions in a browser: cases, packed volumes, the page, the server."""
