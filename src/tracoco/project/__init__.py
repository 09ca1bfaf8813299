"""A project folder: which cases there are, how they are split, planned and prepared."""
