"""Ours side by side with what people use: one run, one machine, ratios."""
