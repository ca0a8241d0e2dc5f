"""The ImGui widgets that the panels use; each returns what the user did, None where nothing.

Where a widget lies on the screen is kept by its label, so that a test can press it with the mouse.
"""

from __future__ import annotations

import numpy as np

WIDTH = 170
LINE = 30                           # letters that buttons side by side have room for
PLOT = (-1.0, 160.0)


class Widgets:
    """Widgets of the window that is open now; made inside a frame or before."""

    def __init__(self):
        import polyscope.imgui
        import polyscope.implot

        self.gui, self.implot = polyscope.imgui, polyscope.implot
        self.where = {}                     # label: (left, top), (right, bottom) in pixels

    def _placed(self, label):
        self.where[label] = self.gui.GetItemRectMin(), self.gui.GetItemRectMax()

    def section(self, label, is_open=False):
        """A header that folds what follows; whether it is unfolded."""
        self.gui.SetNextItemOpen(is_open, self.gui.ImGuiCond_Once)
        shown = self.gui.CollapsingHeader(label)
        self._placed(label)
        return shown

    def button(self, label, beside=False):
        """Whether it was pressed; ``beside`` the widget before it."""
        if beside:
            self.gui.SameLine()
        pressed = self.gui.Button(label)
        self._placed(label)
        return pressed

    def checkbox(self, label, value):
        """The new value, or None."""
        return self._changed(label, self.gui.Checkbox(label, value))

    def choice(self, label, current, names):
        """The name chosen, or None: buttons in a line where they fit into one, else a box that opens."""
        if len("".join(names)) > LINE:
            return self._box(label, current, names)
        chosen = None
        for name in names:
            if name != names[0]:
                self.gui.SameLine()
            if self.gui.RadioButton(f"{name}##{label}", name == current) and name != current:
                chosen = name
            self._placed(f"{label}: {name}")
        return chosen

    def _box(self, label, current, names):
        self.gui.SetNextItemWidth(WIDTH)
        is_open = self.gui.BeginCombo(label, current, self.gui.ImGuiComboFlags_HeightLargest)
        self._placed(label)
        if not is_open:
            return None
        chosen = None
        for name in names:
            if self.gui.Selectable(name, selected=name == current):
                chosen = name
            self._placed(f"{label}: {name}")
        self.gui.EndCombo()
        return chosen

    def slider(self, label, value, low, high, logarithmic=False, form="%.3g"):
        """The new number, or None."""
        self.gui.SetNextItemWidth(WIDTH)
        flags = self.gui.ImGuiSliderFlags_Logarithmic if logarithmic else 0
        return self._changed(label, self.gui.SliderFloat(label, value, low, high, form, flags))

    def integer(self, label, value, low, high):
        """The new integer, or None."""
        self.gui.SetNextItemWidth(WIDTH)
        return self._changed(label, self.gui.SliderInt(label, value, low, max(high, low)))

    def vector(self, label, value, speed):
        """The new three numbers, or None; dragged with the mouse."""
        self.gui.SetNextItemWidth(WIDTH)
        return self._changed(label, self.gui.DragFloat3(label, tuple(map(float, value)), speed, 0.0, 0.0, "%.3g"))

    def text(self, label, value):
        """The text in the box."""
        self.gui.SetNextItemWidth(WIDTH)
        _, value = self.gui.InputText(label, value)
        self._placed(label)
        return value

    def line(self, text, strong=False):
        """A line of text, wrapped."""
        if strong:
            self.gui.PushStyleColor(self.gui.ImGuiCol_Text, (1.0, 0.65, 0.4, 1.0))
        self.gui.TextWrapped(text.replace("%", "%%"))
        if strong:
            self.gui.PopStyleColor()

    def plot(self, label, curves, unit):
        """Curves over the number of the action: name to (k,) values."""
        if not self.implot.BeginPlot(label, PLOT):
            return
        self.implot.SetupLegend(self.implot.ImPlotLocation_East, self.implot.ImPlotLegendFlags_Outside)
        fit = self.implot.ImPlotAxisFlags_AutoFit
        self.implot.SetupAxes("", unit, fit, fit)
        for name, values in curves.items():
            self.implot.PlotLine(name, np.ascontiguousarray(values, np.float64))
        self.implot.EndPlot()

    def _changed(self, label, outcome):
        self._placed(label)
        changed, value = outcome
        return value if changed else None
