"""Exports: one class per kind of folder that leaves palbert."""

from __future__ import annotations

from palbert.verbs.exports.classifier_form import ClassifierForm, CrossEncoderForm
from palbert.verbs.exports.encoder_form import SentenceTransformersForm, TransformersForm
from palbert.verbs.exports.form import Checked, Form, Source, Wanted
from palbert.verbs.exports.onnx_form import OnnxForm

FORMS: dict[str, type[Form]] = {
    form.name: form for form in (OnnxForm, TransformersForm, SentenceTransformersForm, CrossEncoderForm)
}
"""What `--to` takes."""


def form_of(to: str, wanted: Wanted) -> type[Form]:
    """Return the form that is asked for: transformers holds the encoder, or with a task the whole model of it."""
    return ClassifierForm if to == ClassifierForm.name and wanted.tasks else FORMS[to]


__all__ = ["FORMS", "Checked", "Form", "Source", "Wanted", "form_of"]
