"""The ImGui widgets of the panels. Each returns the user's input, or None.

The screen rectangle of each widget is stored under its label, so that a test can click it.
"""

from __future__ import annotations

import contextlib

import numpy as np

WIDTH = 170
LINE, BUTTON = 44, 4                # characters of radio buttons that fit in one line, and those that the circle of each takes
PLOT = (-1.0, 160.0)                # width (-1: all available) and height of a plot, pixels


class Widgets:
    """Widgets of the open window."""

    def __init__(self):
        import polyscope.imgui
        import polyscope.implot

        self.gui, self.implot = polyscope.imgui, polyscope.implot
        self.where = {}                     # label: (left, top), (right, bottom) in pixels

    def section(self, label, is_open=False):
        """Header of a section; True if the section is open."""
        self.gui.SetNextItemOpen(is_open, self.gui.ImGuiCond_Once)
        shown = self.gui.CollapsingHeader(label)
        self._record(label)
        return shown

    def button(self, label, same_line=False):
        """Button; True if it was pressed. ``same_line`` puts it next to the previous widget."""
        if same_line:
            self.gui.SameLine()
        pressed = self.gui.Button(label)
        self._record(label)
        return pressed

    def shortcut(self, letter):
        """True if Ctrl and a letter were pressed, unless a text is being typed."""
        io = self.gui.GetIO()
        return io.KeyCtrl and not io.WantTextInput and self.gui.IsKeyPressed(getattr(self.gui, f"ImGuiKey_{letter}"), False)

    def checkbox(self, label, value):
        """Checkbox; the new value, or None."""
        return self._changed(label, self.gui.Checkbox(label, value))

    def choice(self, label, current, names):
        """Radio buttons if they fit in one line, else a combo box; the chosen name, or None."""
        if len("".join(names)) + len(label) + BUTTON * len(names) > LINE:
            return self._box(label, current, names)
        chosen = None
        for name in names:
            if name != names[0]:
                self.gui.SameLine()
            if self.gui.RadioButton(f"{name}##{label}", name == current) and name != current:
                chosen = name
            self._record(f"{label}: {name}")
        self.gui.SameLine()
        self.gui.TextUnformatted(label)
        return chosen

    def slider(self, label, value, low, high, logarithmic=False, form="%.3g"):
        """Slider; the new number, or None."""
        self.gui.SetNextItemWidth(WIDTH)
        flags = self.gui.ImGuiSliderFlags_Logarithmic if logarithmic else 0
        return self._changed(label, self.gui.SliderFloat(label, value, low, high, form, flags))

    def integer(self, label, value, low, high):
        """Slider for integers; the new integer, or None."""
        self.gui.SetNextItemWidth(WIDTH)
        return self._changed(label, self.gui.SliderInt(label, value, low, max(high, low)))

    def vector(self, label, value, speed):
        """Three numbers that can be dragged with the mouse; the new numbers, or None."""
        self.gui.SetNextItemWidth(WIDTH)
        return self._changed(label, self.gui.DragFloat3(label, tuple(map(float, value)), speed, 0.0, 0.0, "%.3g"))

    def text(self, label, value):
        """Text box; its text."""
        self.gui.SetNextItemWidth(WIDTH)
        _, value = self.gui.InputText(label, value)
        self._record(label)
        return value

    @contextlib.contextmanager
    def enabled(self, condition):
        """Widgets of the ``with`` block keep their place, but take input only if the condition holds."""
        self.gui.BeginDisabled(not condition)
        try:
            yield
        finally:
            self.gui.EndDisabled()

    def box(self, label, text, lines, strong=False):
        """Wrapped text in a box of a fixed number of lines, which scrolls if the text is longer."""
        height = lines * self.gui.GetTextLineHeightWithSpacing()
        self.gui.BeginChild(label, (0.0, height))
        if strong:
            self.gui.PushStyleColor(self.gui.ImGuiCol_Text, (1.0, 0.65, 0.4, 1.0))
        self.gui.PushTextWrapPos(0.0)
        self.gui.TextUnformatted(text)
        self.gui.PopTextWrapPos()
        if strong:
            self.gui.PopStyleColor()
        self.gui.EndChild()

    def progress(self, share, text, width):
        """Bar with a text on it."""
        self.gui.ProgressBar(share, (width, 0.0), text)

    def plot(self, label, plot):
        """Curves of a :class:`Plot` with its title and the names of its axes. None: an empty frame of the same size."""
        title, x, y, curves, first, step = plot or ("this view has no values to plot", "", "", {}, 0.0, 0.0)
        flags = self.implot.ImPlotFlags_NoMenus | self.implot.ImPlotFlags_NoMouseText
        if len(curves) < 2:
            flags |= self.implot.ImPlotFlags_NoLegend
        if not self.implot.BeginPlot(f"{title}###{label}", PLOT, flags):
            return
        self.implot.SetupLegend(self.implot.ImPlotLocation_East, self.implot.ImPlotLegendFlags_Outside)
        fit = self.implot.ImPlotAxisFlags_AutoFit
        self.implot.SetupAxes(x, y, fit, fit)
        for name, values in curves.items():
            self.implot.PlotLine(name, first + step * np.arange(len(values)), np.ascontiguousarray(values, np.float64))
        self.implot.EndPlot()

    def _record(self, label):
        self.where[label] = self.gui.GetItemRectMin(), self.gui.GetItemRectMax()

    def _box(self, label, current, names):
        self.gui.SetNextItemWidth(WIDTH)
        is_open = self.gui.BeginCombo(label, current, self.gui.ImGuiComboFlags_HeightLargest)
        self._record(label)
        if not is_open:
            return None
        chosen = None
        for name in names:
            if self.gui.Selectable(name, selected=name == current):
                chosen = name
            self._record(f"{label}: {name}")
        self.gui.EndCombo()
        return chosen

    def _changed(self, label, outcome):
        self._record(label)
        changed, value = outcome
        return value if changed else None
