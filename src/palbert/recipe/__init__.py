"""Recipes: everything a run needs to know, checked before anything starts."""
