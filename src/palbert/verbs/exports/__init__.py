"""Exports: one class per kind of folder that leaves palbert."""

from __future__ import annotations

from palbert.verbs.exports.encoder_form import SentenceTransformersForm, TransformersForm
from palbert.verbs.exports.form import Checked, Form, Source, Wanted
from palbert.verbs.exports.onnx_form import OnnxForm

FORMS: dict[str, type[Form]] = {form.name: form for form in (SentenceTransformersForm, TransformersForm, OnnxForm)}
"""What `--to` takes."""

__all__ = ["FORMS", "Checked", "Form", "Source", "Wanted"]
