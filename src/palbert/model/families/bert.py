"""BERT and its closest relatives: post-norm blocks, a table of positions, plain feed-forward networks."""

from __future__ import annotations

from palbert.model.families.family import Family, Names

SIZES = {
    "vocabulary_size": "vocab_size",
    "hidden_size": "hidden_size",
    "layers": "num_hidden_layers",
    "heads": "num_attention_heads",
    "intermediate_size": "intermediate_size",
}
TRAINING = {
    "activation": "hidden_act",
    "norm_epsilon": "layer_norm_eps",
    "dropout": "hidden_dropout_prob",
    "attention_dropout": "attention_probs_dropout_prob",
    "initializer_range": "initializer_range",
}
TABLES: dict[str, Names] = {
    "embeddings.word": ("embeddings.word_embeddings",),
    "embeddings.position": ("embeddings.position_embeddings",),
    "embeddings.norm": ("embeddings.LayerNorm",),
}
TYPES: dict[str, Names] = {"embeddings.token_type": ("embeddings.token_type_embeddings",)}
POOLER: dict[str, Names] = {"pooler": ("pooler.dense",)}
BERT_LAYER: dict[str, Names] = {
    "query_key_value": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention_output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "intermediate": ("intermediate.dense",),
    "output": ("output.dense",),
    "norm": ("output.LayerNorm",),
}
LM_HEAD = {"dense": "lm_head.dense", "norm": "lm_head.layer_norm", "bias": "lm_head.bias"}
BERT = Family(
    prefix="bert.",
    settings={**SIZES, **TRAINING, "type_vocabulary_size": "type_vocab_size"},
    modules={**TABLES, **TYPES, **POOLER},
    layer="encoder.layer.{}.",
    layer_modules=BERT_LAYER,
    masked_head={
        "dense": "cls.predictions.transform.dense",
        "norm": "cls.predictions.transform.LayerNorm",
        "bias": "cls.predictions.bias",
    },
)
ROBERTA = Family(
    prefix="roberta.",
    settings=BERT.settings,
    modules=BERT.modules,
    layer=BERT.layer,
    layer_modules=BERT_LAYER,
    positions_after_padding=True,
    masked_head=LM_HEAD,
    masked_options={"activation": "gelu"},
)
ELECTRA = Family(
    prefix="electra.",
    settings={**BERT.settings, "embedding_size": "embedding_size"},
    defaults={"embedding_size": 128},
    modules={**TABLES, **TYPES, "embeddings.project": ("embeddings_project",)},
    layer=BERT.layer,
    layer_modules=BERT_LAYER,
    masked_head={
        "dense": "generator_predictions.dense",
        "norm": "generator_predictions.LayerNorm",
        "bias": "generator_lm_head.bias",
    },
    masked_options={"activation": "gelu"},
)
DISTILBERT = Family(
    prefix="distilbert.",
    settings={
        "vocabulary_size": "vocab_size",
        "hidden_size": "dim",
        "layers": "n_layers",
        "heads": "n_heads",
        "intermediate_size": "hidden_dim",
        "activation": "activation",
        "dropout": "dropout",
        "attention_dropout": "attention_dropout",
        "initializer_range": "initializer_range",
    },
    modules=TABLES,
    layer="transformer.layer.{}.",
    layer_modules={
        "query_key_value": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        "attention_output": ("attention.out_lin",),
        "attention_norm": ("sa_layer_norm",),
        "intermediate": ("ffn.lin1",),
        "output": ("ffn.lin2",),
        "norm": ("output_layer_norm",),
    },
    fixed={"type_vocabulary_size": 0, "norm_epsilon": 1e-12},
    masked_head={"dense": "vocab_transform", "norm": "vocab_layer_norm", "bias": "vocab_projector.bias"},
)
MPNET = Family(
    prefix="mpnet.",
    settings={**SIZES, **TRAINING, "relative_buckets": "relative_attention_num_buckets"},
    modules={**TABLES, **POOLER, "relative": ("encoder.relative_attention_bias",)},
    layer=BERT.layer,
    layer_modules={
        **BERT_LAYER,
        "query_key_value": ("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        "attention_output": ("attention.attn.o",),
        "attention_norm": ("attention.LayerNorm",),
    },
    defaults={"relative_buckets": 32},
    fixed={"type_vocabulary_size": 0},
    positions_after_padding=True,
    masked_head=LM_HEAD,
    masked_options={"activation": "gelu"},
)
