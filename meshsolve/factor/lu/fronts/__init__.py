"""LU by fronts: multifrontal, with row exchanges inside each front."""
