"""The table of gradient methods: the names that a recipe may give."""

from __future__ import annotations

from typing import Any

from palbert.gradients.aligned_mtl import AlignedMTL
from palbert.gradients.cagrad import CAGrad
from palbert.gradients.fairgrad import FairGrad
from palbert.gradients.imtl_g import IMTLG
from palbert.gradients.mgda import MGDA
from palbert.gradients.pcgrad import PCGrad
from palbert.gradients.sum import Sum
from palbert.gradients.upgrad import UPGrad

GRADIENTS: dict[str, Any] = {
    "aligned-mtl": AlignedMTL,
    "cagrad": CAGrad,
    "fairgrad": FairGrad,
    "imtl-g": IMTLG,
    "mgda": MGDA,
    "pcgrad": PCGrad,
    "sum": Sum,
    "upgrad": UPGrad,
}
