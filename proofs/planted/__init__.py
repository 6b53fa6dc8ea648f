"""Tables of the errors that the claims must notice, one module per paper; see `..planting`."""
