"""A few labelled scans and many unlabelled ones in, a segmentation model out.

The folders stand in the order in which data flows; each imports only those above it:

    scans       read a scan, write a result back on its grid
    project     pair images and labels, plan, split, fill the memory-mapped store
    data        crop pairs, augmentation, labelled and unlabelled batches
    networks    VNet, UNet in 2D and 3D, a light UNet for CPUs
    losses      one equation, one function
    methods     one file a method: losses put together
    training    the one loop, its checkpoints, its log
    inference   sliding window, Predictor
    evaluation  overlap and surface distances of cases
    report      tables, curves, pictures, one HTML file

`experiment.py` puts them together and reads top to bottom; `cli.py` is the command line.
"""

__version__ = "0.1.0"
