"""The model: an encoder over packed tokens, with adapters, poolings and heads for the tasks."""
