"""Scans on disk: read any known format into one orientation, write a result back on its grid."""
