"""Convex quadratic programs with rows, bounds and equalities, in the order of the method:

``scaling`` equilibrates, ``model`` holds the scaled matrices and the factor, ``program`` one problem and its residuals, ``steps`` the
interior point method, ``polish`` makes active bounds and rows exact. ``certificates`` proves that there is no point or no minimum.
``curvature`` refuses functions that are not convex, ``bounds_alone`` is the faster method without rows.
"""
