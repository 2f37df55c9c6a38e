"""The demonstration: a small order shop, told in chapters whose claims are checked as they go."""
