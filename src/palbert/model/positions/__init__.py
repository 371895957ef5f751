"""Positions: how an encoder knows the position of a token in its sequence."""
