"""The commands of geometry: spectrum, geodesics, param, denoise. Heavy imports are inside the functions, so that --help is fast."""

from __future__ import annotations

from meshsolve.cli import files
from meshsolve.cli.shared import finish, finish_pair, load_input_mesh
from meshsolve.errors import ConvergenceWarning, MeshsolveError
from meshsolve.report import without_warnings


def run_spectrum(args):
    """Compute the smallest eigenvalues of a mesh's Laplacian, or all in an interval, with their eigenfunctions.

    Solves L x = w M x for the cotangent Laplacian L and the lumped masses M of the vertices. Eigenvalues have the unit of 1 / length^2.
    Their number is proved by the inertia of L - s M, so no copy of a multiple eigenvalue is missing. If a residual misses its tolerance,
    the file is written, and the exit code is 1.
    """
    import numpy as np

    from meshsolve.apps.render import render
    from meshsolve.eigen import eigsh
    from meshsolve.operators import cotan_laplacian, graph_laplacian, mass_matrix

    mesh = load_input_mesh(args, files.check_spectrum_format)
    with files.naming(args.mesh, call="the Laplacian"), without_warnings(ConvergenceWarning):          # reported as the error below
        L, M = (cotan_laplacian(mesh), mass_matrix(mesh)) if args.laplacian == "cotan" else (graph_laplacian(mesh), None)
        fixed = mesh.boundary_vertices if args.dirichlet and len(mesh.boundary_vertices) else None
        w, X, info = eigsh(L, args.count, M=M, interval=args.interval, fixed=fixed, device=args.device, threads=args.threads)
    names = [f"eigenfunction_{k}" for k in range(len(w))]
    largest = float(info.residuals.max(initial=0.0))
    info.report.facts.update(vertices=len(mesh.vertices), method=info.method, eigenvalues=w.tolist(), largest_residual=largest,
                             converged=info.converged, proved=info.count is not None)

    def write(path):
        if files.holds_fields(path):
            mesh.save(path, fields=dict(zip(names, X.T, strict=True)))
        elif path.suffix.lower() == ".npz":
            np.savez(path, values=w, vectors=X, residuals=info.residuals)
        else:
            files.write_vector(path, w)

    def draw(path):
        if len(w) == 0:
            raise MeshsolveError(f"{args.mesh}: no eigenvalue is in the interval, so there is no picture")
        render(path, mesh, values=X[:, -1], colormap="coolwarm", title=f"eigenfunction {len(w) - 1}, eigenvalue {w[-1]:.6g}")

    finish(args, info.report, write, draw)
    if not info.converged:
        raise MeshsolveError(f"{args.output}: the eigenpairs were written, but {info.reason} (largest residual {largest:.1e})")


def run_geodesics(args):
    """Compute geodesic distances from vertices or curves, logarithmic maps, or parallel transport of a vector.

    Uses the heat method on intrinsic Delaunay triangles. Vertices count from 0. Distances are 0 at the sources and infinite on
    components without a source. Distances to a curve are positive on its left and negative on its right. With --transport and --log-map
    the result has 3 and 2 columns instead of one.
    """
    import numpy as np

    from meshsolve import apps

    if args.curve and (args.each or args.transport or args.log_map):
        raise MeshsolveError("--curve computes signed distances; leave out --each, --transport and --log-map, or give --source")
    if args.render and args.transport:
        raise MeshsolveError("--render draws distances and maps; vectors of --transport can be seen in ParaView (-o OUT.vtu)")
    mesh = load_input_mesh(args, files.check_distance_format)
    with files.naming(args.mesh):
        G = apps.Geodesics(mesh, t=args.t, device=args.device, threads=args.threads)
        fields = _geodesic_fields(args, G)
    values = np.column_stack(list(fields.values())) if args.each else next(iter(fields.values()))
    reached, n = np.isfinite(values), len(mesh.vertices)
    G.report.facts.update(vertices=n, level=G.level)
    if args.transport or args.log_map:
        G.report.facts.update(unreachable=int(np.count_nonzero(~reached[:, 0])))
    else:
        G.report.facts.update(largest_distance=float(values[reached].max()), unreachable=int(np.count_nonzero(~reached)))

    def write(path):
        if files.holds_fields(path):
            mesh.save(path, fields=fields)
        else:
            files.write_vector(path, values)

    def draw(path):
        if args.log_map:
            apps.render(path, mesh, uv=np.nan_to_num(values), title="logarithmic map")
        else:
            apps.render(path, mesh, values=values.reshape(n, -1).min(axis=1), lines=16, title="geodesic distance")

    finish(args, G.report, write, draw)


def run_param(args):
    """Map a surface to the plane, and write it with texture coordinates (UV).

    The surface must have one component and be a disc, perhaps with holes; --cut makes one of any other. The report has the number of
    flipped faces, and the distortion of angles and areas: 1 if the map keeps them.
    """
    import numpy as np

    from meshsolve import apps
    from meshsolve.apps.maps.distortion import distortion

    mesh = load_input_mesh(args, files.check_texture_format)
    with files.naming(args.mesh):
        uv, report = apps.parameterize(mesh, args.method, weights=args.weights, cut=args.cut, device=args.device, threads=args.threads)
    uv = np.nan_to_num(uv)                                  # NaN at vertices without faces
    report.facts.update(vertices=len(mesh.vertices), faces=len(mesh.faces), **distortion(report.mesh, uv))
    finish(args, report, lambda path: mesh.save(path, uv=(uv, report.mesh.faces)),
           lambda path: apps.render(path, report.mesh, uv=uv, title=f"{args.method} map"))


def run_denoise(args):
    """Remove noise from a mesh and keep its creases.

    Face normals are averaged with neighbors whose normals are similar, and the vertices follow them. Faces must be oriented alike. To
    round creases off as well, use meshsolve smooth.
    """
    from meshsolve import apps

    mesh = load_input_mesh(args)
    with files.naming(args.mesh):
        out, report = apps.denoise(mesh, args.method, sigma=args.sigma, iterations=args.iterations, vertex_iterations=args.iterations,
                                   boundary=args.boundary)
    finish_pair(args, mesh, out, report, f"{args.method} denoising, sigma {args.sigma:g}")


def _geodesic_fields(args, G):
    """The results by name, each (n,) or (n, columns)."""
    if args.curve:
        return {"signed_distance": G.signed_distance([files.read_vertices(curve) for curve in args.curve])}
    G.report.facts.update(sources=len(args.source))
    if args.transport:
        return {"transport": G.transport(args.source, [args.transport] * len(args.source))}
    if args.log_map:
        return {"log_map": G.log_map(args.source, args.log_map)}
    if not args.each:
        return {"distance": G.distance(args.source)}
    names = [f"distance_{k}" for k in args.source]
    if len(set(names)) < len(names):
        raise MeshsolveError(f"--source has a vertex twice: {' '.join(map(str, args.source))}; with --each each source must be given once")
    return dict(zip(names, G.each(args.source).T, strict=True))
