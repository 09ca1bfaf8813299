"""Networks: an encoder, a decoder and a head, in 2D and 3D, built by name with `build_network`."""
