"""Theorems of the papers, as functions that report which hypotheses hold and what follows.

They check the Label Feature Theorem, check whether relations are those of classes, and compute the
von Mises-Fisher density on spheres of up to 4,096 dimensions.
"""

from .equivalence import (
    RelationReport,
    as_relation,
    check_relations,
)
from .label_features import (
    LabelFeatureReport,
    check_label_features,
    label_feature_value,
    polygon_map,
)
from .von_mises_fisher import (
    debye_polynomials,
    log_bessel_i,
    log_density,
    log_normalizer,
    log_sphere_area,
)

__all__ = [
    "LabelFeatureReport",
    "RelationReport",
    "as_relation",
    "check_label_features",
    "check_relations",
    "debye_polynomials",
    "label_feature_value",
    "log_bessel_i",
    "log_density",
    "log_normalizer",
    "log_sphere_area",
    "polygon_map",
]
