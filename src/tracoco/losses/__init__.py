"""One equation, one pure function: any number of classes, 2D and 3D, means instead of sums."""
