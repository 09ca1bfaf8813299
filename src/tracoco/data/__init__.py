"""Prepared cases to batches: crop pairs with their places, augmentation, two endless streams."""
