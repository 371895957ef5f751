"""Steps of the attention kernels with one block of queries and one block of keys."""

from __future__ import annotations

import triton
import triton.language as tl

from palbert.model.kernels.noise import is_kept

QUERY, KEY, VALUE = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
"""Order of the three in a token."""
DRAWS = tl.constexpr(2**14)
"""Draws reserved for one query, each for four keys; a sequence has at most four times as many keys."""


@triton.jit
def load_rows(values, start, tokens, length, first, STRIDE: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr):
    """Load the width of one head of some tokens, (tokens, COLUMNS); zeros beyond the sequence and the width."""
    columns = tl.arange(0, COLUMNS)
    places = (start + tokens)[:, None] * STRIDE + first + columns[None, :]
    return tl.load(values + places, mask=(tokens < length)[:, None] & (columns < WIDTH)[None, :], other=0.0)


@triton.jit
def store_rows(
    target, values, start, tokens, length, first, STRIDE: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr
):
    """Store rows where `load_rows` would load them."""
    columns = tl.arange(0, COLUMNS)
    places = (start + tokens)[:, None] * STRIDE + first + columns[None, :]
    inside = (tokens < length)[:, None] & (columns < WIDTH)[None, :]
    tl.store(target + places, values.to(target.dtype.element_ty), mask=inside)


@triton.jit
def score_block(query, key, bias, head, queries, keys, length, longest, scale, BIASED: tl.constexpr):
    """Return the scores of a block, -inf for keys beyond the sequence."""
    scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
    if BIASED:
        places = head * (2 * longest - 1) + (longest - 1) + keys[None, :] - queries[:, None]
        inside = (queries < length)[:, None] & (keys < length)[None, :]
        scores += tl.load(bias + places, mask=inside, other=0.0).to(tl.float32)
    return tl.where((keys < length)[None, :], scores, float("-inf"))


@triton.jit
def seed_of(seeds, place, number, DROPS: tl.constexpr):
    """Return the seed of one head of one sequence; any number, if nothing is dropped."""
    seed = number.to(tl.int64)
    if DROPS:
        seed += tl.load(seeds + place)
    return seed


@triton.jit
def draw_noise(seed, queries, first_key, factor, THRESHOLD: tl.constexpr, BLOCK: tl.constexpr):
    """Draw zeros and the factor for a block of weights; always the same for the same query and key."""
    kept = is_kept(seed, queries * DRAWS + first_key // 4, THRESHOLD, BLOCK, BLOCK)
    return tl.where(kept, factor, 0.0)


@triton.jit
def differentiate_block(
    query, key, value, upstream, common, logsum, bias, seed, head, queries, first_key, length, longest, scale, factor,
    THRESHOLD: tl.constexpr, BLOCK: tl.constexpr, BIASED: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    """Return a block of dropped-out weights, and the gradient of its scores."""
    keys = first_key + tl.arange(0, BLOCK)
    scores = score_block(query, key, bias, head, queries, keys, length, longest, scale, BIASED)
    weights = tl.where((queries < length)[:, None], tl.exp(scores - logsum[:, None]), 0.0)
    to_weights = tl.dot(upstream, tl.trans(value), input_precision="ieee")
    dropped = weights
    if DROPS:
        noise = draw_noise(seed, queries, first_key, factor, THRESHOLD, BLOCK)
        dropped = weights * noise
        to_weights = to_weights * noise
    # The softmax's gradient: weights × (gradient - its mean under the weights).
    return dropped, weights * (to_weights - common[:, None])


@triton.jit
def sum_diagonals(values, BLOCK: tl.constexpr):
    """Sum a block along its diagonals from the lower left corner: the first BLOCK sums, and the others."""
    row = tl.arange(0, BLOCK)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    place = column + row - (BLOCK - 1)  # in the row, of the value on diagonal `column`
    lower = tl.where(place >= 0, tl.gather(values, tl.maximum(place, 0), axis=1), 0.0)
    place = column + row + 1
    upper = tl.where(place < BLOCK, tl.gather(values, tl.minimum(place, BLOCK - 1), axis=1), 0.0)
    return tl.sum(lower, axis=0), tl.sum(upper, axis=0)


@triton.jit
def load_queries(
    inputs, output, gradient, logsums, start, queries, length, head,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Load what the backward pass needs of some queries."""
    STRIDE: tl.constexpr = HEADS * WIDTH
    first = head * WIDTH
    query = load_rows(inputs, start, queries, length, first + QUERY * STRIDE, 3 * STRIDE, WIDTH, COLUMNS)
    upstream = load_rows(gradient, start, queries, length, first, STRIDE, WIDTH, COLUMNS)
    mixed = load_rows(output, start, queries, length, first, STRIDE, WIDTH, COLUMNS)
    common = tl.sum(upstream.to(tl.float32) * mixed.to(tl.float32), axis=1)
    logsum = tl.load(logsums + (start + queries) * HEADS + head, mask=queries < length, other=0.0)
    return query, upstream, common, logsum
