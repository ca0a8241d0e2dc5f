"""Start polyscope, with a window or drawing into memory without a display."""

from __future__ import annotations

from meshsolve.errors import DeviceUnavailableError, InvalidInputError
from meshsolve.options import as_integer, one_of

LEFT, RIGHT = 305, 390              # widths of polyscope's panels and of the viewer's panels, pixels
LOST, TRIES = "Unable to convert function return value", 5      # polyscope's error, and attempts to avoid it
MOCK = "openGL_mock"
NO_WINDOW = ("no window can be opened: there is no display. Write a picture instead: meshsolve view MESH --screenshot picture.png")
NO_EGL = ("no picture can be drawn: polyscope needs a display, or EGL to draw without one (Debian, Ubuntu: apt install libegl1 "
          "libgl1-mesa-dri)")


def polyscope():
    """Import polyscope, or raise an error that says how to install it."""
    try:
        import polyscope
    except ImportError as e:
        raise DeviceUnavailableError(f"the viewer needs polyscope, which cannot be imported ({e}): pip install polyscope, or "
                                     "pip install '.[viewer]' in a clone of meshsolve") from e
    return polyscope


def start(size=(1440, 900), headless=False, up="y", backend=None):
    """Initialize polyscope with an empty scene.

    Raises
    ------
    DeviceUnavailableError
        No polyscope; no display; for ``headless`` neither a display nor EGL.
    InvalidInputError
        A size outside 64 to 8192, or an ``up`` other than y and z.
    """
    one_of(up, "up", ("y", "z"))
    try:
        width, height = (as_integer(pixels, "size", 64, 8192) for pixels in size)
    except (TypeError, ValueError) as e:
        raise InvalidInputError(f"size must be two integers from 64 to 8192, got {size!r}") from e
    ps = polyscope()
    if not ps.is_initialized():
        ps.set_program_name("meshsolve")
        ps.set_use_prefs_file(False)
        ps.set_verbosity(0)
        ps.set_errors_throw_exceptions(True)
        _initialize(ps, headless, backend)
    elif ps.get_render_engine_backend_name() == MOCK and backend != MOCK:
        raise DeviceUnavailableError(NO_EGL if headless else NO_WINDOW)
    ps.clear_user_callback()
    ps.remove_everything()
    ps.set_up_dir(f"{up}_up")
    ps.set_window_size(width, height)
    ps.set_ground_plane_mode("none")
    ps.set_SSAA_factor(2)
    ps.set_right_gui_pane_width(RIGHT)
    ps.set_user_gui_is_on_right_side(True)
    ps.set_give_focus_on_show(True)
    return ps


def add_quantity(structure, method, name, values, **options):
    """Add and enable a quantity by ``add_scalar_quantity`` or ``add_color_quantity``.

    Setters of polyscope 2.6 sometimes raise TypeError, if the new quantity has the address of a deleted one. Then another
    quantity is added before the first one is removed, so that its address differs.
    """
    for attempt in range(TRIES):
        try:
            getattr(structure, method)(name + attempt * "'", values, enabled=True, **options)
            break
        except TypeError as e:
            if LOST not in str(e) or attempt == TRIES - 1:
                raise
    for k in range(attempt):
        structure.remove_quantity(name + k * "'")


def _initialize(ps, headless, backend):
    """Start the first backend that works. If none does, start the mock backend, which polyscope's exit hook needs, and raise."""
    wanted = [backend] if backend else ["openGL3_egl", "auto"] if headless else ["auto"]
    for name in wanted:
        try:
            return ps.init(name)
        except RuntimeError:
            continue
    ps.init(MOCK)
    raise DeviceUnavailableError(NO_EGL if headless else NO_WINDOW)
