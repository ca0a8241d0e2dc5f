"""Complete L D L^T factorization with exact inertia, and the planning and scaling that the incomplete one shares."""
