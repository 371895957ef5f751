"""Reporting: plots, pages and prediction files made from what inference found."""
