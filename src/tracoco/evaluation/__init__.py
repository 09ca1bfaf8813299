"""How good a segmentation is: surfaces, metrics, scores of cases, and whole folders of them."""
