"""How a time is taken: verified first, in rounds that interleave the variants, with every sample kept."""
