"""Serving: trained runs behind HTTP, with API keys, limits per client and a log of inputs and answers."""
