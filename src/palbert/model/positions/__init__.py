"""Positions: how an encoder knows where in its sequence a token stands."""
