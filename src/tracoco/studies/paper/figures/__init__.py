"""The paper's figures: which runs each needs, and the numbers behind it."""
