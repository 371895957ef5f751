"""Panels: what reports show of each kind of target."""

from palbert.reporting.panels.panels import ErrorRow, Panels, panels_of

__all__ = ["ErrorRow", "Panels", "panels_of"]
