"""The labelling loop: which scan to label next, and what the new labels change."""
