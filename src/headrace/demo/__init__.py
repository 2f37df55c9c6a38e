"""The demonstration: a small order shop, in chapters whose claims are checked as they go."""
