"""Engines: where the blocks of a file are scored, in this process or by workers."""

from palbert.verbs.engines.engine import Block, Engine, LocalEngine

__all__ = ["Block", "Engine", "LocalEngine"]
