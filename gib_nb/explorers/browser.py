"""Figures on a page that runs Python in the browser: plotly cannot draw there by itself, so every figure is shown as those of the explorers."""


def draw_figures():
    "From now on, this session of IPython shows plotly's figures by `PlotView`; does nothing outside of IPython."
    from IPython import get_ipython

    if shell := get_ipython():
        formatter = shell.display_formatter.ipython_display_formatter
        formatter.for_type_by_name("plotly.graph_objs._figure", "Figure", _show)


def _show(figure):
    from IPython.display import display

    from .view import PlotView

    display(PlotView(figure))
