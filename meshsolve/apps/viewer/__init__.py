"""The viewer: curvatures, distances and maps of a mesh, its patches and orderings, animated flows, editing with handles.

:class:`Model` has all functions without a window. :class:`~meshsolve.apps.viewer.window.Window` draws the model with polyscope
(extra ``viewer``) and calls it from its panels. :func:`view` opens a window on a model.
"""

from __future__ import annotations

import os
from typing import Literal

from meshsolve.apps.viewer.model import VIEWS, Model
from meshsolve.apps.viewer.structure import NO_SEPARATORS
from meshsolve.errors import InvalidInputError
from meshsolve.files import as_path
from meshsolve.mesh import MeshLike
from meshsolve.options import as_integer, one_of
from meshsolve.types import Path

__all__ = ["VIEWS", "Model", "view"]


def view(mesh: MeshLike | Path, show: str = "plain", screenshot: Path | None = None, turntable: Path | None = None, frames: int = 72,
         size: tuple[int, int] = (1440, 900), up: Literal["y", "z"] = "y", threads: int | None = None) -> Model:
    """Open the viewer on a mesh. With ``screenshot`` or ``turntable`` write pictures instead, also without a display.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh, meshio.Mesh, str or path
    show : str
        Initial view: ``"plain"``, ``"mean curvature"``, ``"Gaussian curvature"``, ``"normals"``, ``"eigenvector"``; ``"distance"``,
        ``"logarithmic map"`` or ``"transport"`` from vertex 0; ``"texture"``, ``"angle distortion"`` or ``"area distortion"`` of a map;
        ``"patches"``, ``"ribbons"``, ``"one patch"``, ``"separators"``, ``"elimination order"`` or ``"column counts"``.
    screenshot : str or path, optional
        PNG file to write.
    turntable : str or path, optional
        Folder for pictures of a full turn around the mesh, ``frame_000.png`` and so on.
    frames : int
        Number of pictures of the turntable, at least 2.
    size : (int, int)
        Width and height in pixels.
    up : {"y", "z"}
        Axis that points up.
    threads : int, optional

    Returns
    -------
    Model
        State after the window was closed; ``.mesh`` is the edited mesh.

    Raises
    ------
    DeviceUnavailableError
        No polyscope (``pip install polyscope``); no display, and for pictures no EGL either.
    InvalidInputError
        Not a mesh, or no faces; unknown ``show``; a picture that is not .png or cannot be written; a picture of separators of a
        mesh without separators (meshes below 5,000 vertices).
    """
    from meshsolve.apps.viewer.window import Window, made_folder

    one_of(show, "show", VIEWS)
    frames = as_integer(frames, "frames", 2, 10_000)
    if screenshot is not None and as_path(screenshot).suffix.lower() != ".png":
        raise InvalidInputError(f"{screenshot}: pictures are written as .png")
    if turntable is not None:
        made_folder(turntable)
    is_file = isinstance(mesh, (str, os.PathLike))
    model = Model.open(mesh, threads) if is_file else Model(mesh, threads=threads)
    model.show(show)
    pictures = screenshot is not None or turntable is not None
    if pictures and show == "separators" and not model.structure.has_separators():
        raise InvalidInputError(f"{model.name} has {NO_SEPARATORS}. Use the view \"elimination order\"")
    window = Window(model, size, pictures, up, os.fspath(mesh) if is_file else "")
    if screenshot is not None:
        window.screenshot(screenshot)
    if turntable is not None:
        window.turntable(turntable, frames)
    if not pictures:
        window.open()
    return model
