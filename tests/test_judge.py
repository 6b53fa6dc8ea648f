"""The judge accepts what is right, and refuses each figure that is not."""
