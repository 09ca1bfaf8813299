"""Experiment trackers: TensorBoard, MLflow and Weights & Biases behind one protocol."""
