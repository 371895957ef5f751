"""Blocks: the layers of an encoder, by the order of their norms and residuals."""

from palbert.model.blocks.block import Block
from palbert.model.blocks.post_norm import PostNormBlock
from palbert.model.blocks.pre_norm import PreNormBlock

BLOCKS: dict[str, type[Block]] = {"post-norm": PostNormBlock, "pre-norm": PreNormBlock}

__all__ = ["BLOCKS", "Block", "PostNormBlock", "PreNormBlock"]
