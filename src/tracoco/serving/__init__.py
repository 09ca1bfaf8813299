"""A server that labelling tools talk to: the REST interface of MONAI Label on a project."""
