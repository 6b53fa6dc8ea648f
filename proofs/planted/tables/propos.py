"""Errors planted in the library for the claims of ProPos; more in `propos_densities`."""

from __future__ import annotations

from ..planting import PlantedError

_LOSSES = "algos.losses.propos.scattering."
_PROTOTYPES = "algos.losses.propos.prototypes."
_NOISE = "algos.core.random."
_UNIT = "algos.core.directions.unit_directions"
_SCATTERING = ("P1", "P3", "P5", "P7")

PLANTED: tuple[PlantedError, ...] = (
    # Prototype scattering
    PlantedError(
        _LOSSES + "psl_same_view",
        "wrong argument",
        "_scattering(same, cross,",
        "_scattering(cross, cross,",
    ),
    PlantedError(
        _LOSSES + "psl_same_view",
        "wrong argument",
        "_scattering(same, cross,",
        "_scattering(same, same,",
    ),
    PlantedError(
        _LOSSES + "psl_same_view", "ignored argument", "online, temperature)", "online, 0.5)"
    ),
    PlantedError(
        _LOSSES + "psl_same_view",
        "dropped",
        "eye, valid, online, temperature",
        "eye, online.valid, online, temperature",
    ),
    PlantedError(
        _LOSSES + "psl_cross_view",
        "wrong argument",
        "_scattering(cross, cross,",
        "_scattering(cross.T, cross,",
    ),
    PlantedError(
        _LOSSES + "psl_cross_view", "ignored argument", "online, temperature)", "online, 0.5)"
    ),
    PlantedError(
        _LOSSES + "psl_cross_view",
        "wrong argument",
        "_similarities(online, target)",
        "_similarities(target, online)",
    ),
    PlantedError(
        _LOSSES + "psl_mixed_view",
        "wrong branch",
        "xp.where(eye, cross, same)",
        "xp.where(eye, same, cross)",
    ),
    PlantedError(_LOSSES + "psl_mixed_view", "dropped", "xp.where(eye, cross, same)", "same"),
    PlantedError(_LOSSES + "psl_mixed_view", "dropped", "xp.where(eye, cross, same)", "cross"),
    PlantedError(
        _LOSSES + "psl_mixed_view", "ignored argument", "online, temperature)", "online, 0.5)"
    ),
    PlantedError(
        _LOSSES + "_scattering",
        "sign",
        "(largest - own) / tau",
        "(largest + own) / tau",
        _SCATTERING,
    ),
    PlantedError(_LOSSES + "_scattering", "dropped", "/ tau + log_sum", "+ log_sum", _SCATTERING),
    PlantedError(
        _LOSSES + "_scattering",
        "wrong argument",
        "valid[..., :, None] & valid[..., None, :]",
        "valid[..., :, None] | valid[..., None, :]",
        ("P3", "P5"),
    ),
    PlantedError(
        _LOSSES + "_log_sum_exp",
        "dropped",
        "xp.where(mask, xp.exp(shifted), zero)",
        "xp.exp(shifted)",
        ("P3", "P4", "P5"),
    ),
    PlantedError(
        _LOSSES + "_log_sum_exp",
        "factor",
        "(cosines - largest[..., None]) / tau",
        "(cosines - largest[..., None])",
        ("P3", "P4"),
    ),
    PlantedError(
        _LOSSES + "_log_sum_exp",
        "axis",
        "xp.exp(shifted), zero), axis=-1)",
        "xp.exp(shifted), zero), axis=0)",
        ("P3", "P4"),
    ),
    PlantedError(
        _LOSSES + "_mean_over_valid",
        "dropped",
        "/ xp.clip(number, min=1.0)",
        "/ losses.shape[0]",
        ("P3", "P4", "P5", "P20"),
    ),
    PlantedError(
        _LOSSES + "_mean_over_valid",
        "dropped",
        "xp.where(valid, losses, xp.zeros_like(losses))",
        "losses",
        ("P3", "P20"),
    ),
    PlantedError(
        _LOSSES + "_mean_over_valid", "wrong branch", "xp.clip(number, min=1.0)", "number", ("P3",)
    ),
    PlantedError(
        _LOSSES + "_similarities",
        "wrong operator",
        "online.valid & target.valid",
        "online.valid | target.valid",
        ("P3", "P20"),
    ),
    PlantedError(_LOSSES + "prototypical_alignment", "sign", "-own / tau", "own / tau"),
    PlantedError(
        _LOSSES + "prototypical_alignment", "ignored argument", "-own / tau", "-2.0 * own"
    ),
    PlantedError(
        _LOSSES + "prototypical_alignment",
        "wrong argument",
        "_similarities(online, target)",
        "_similarities(online, online)",
    ),
    PlantedError(
        _LOSSES + "prototypical_alignment",
        "wrong reduction",
        "xp.where(eye, cross, xp.zeros_like(cross))",
        "cross",
    ),
    PlantedError(
        _LOSSES + "prototypical_uniformity",
        "dropped",
        "valid[..., None, :] & ~eye",
        "valid[..., None, :]",
    ),
    PlantedError(
        _LOSSES + "prototypical_uniformity", "dropped", "largest / tau + log_sum", "log_sum"
    ),
    PlantedError(
        _LOSSES + "prototypical_uniformity",
        "factor",
        "_log_sum_exp(same, pairs, tau, xp)",
        "_log_sum_exp(same, pairs, 2.0 * tau, xp)",
    ),
    PlantedError(
        _LOSSES + "prototypical_uniformity",
        "dropped",
        "valid[..., :, None] & valid[..., None, :] & ~eye",
        "valid[..., :, None] & ~eye",
    ),
    # Sampled positives
    PlantedError(_LOSSES + "perturbed", "factor", "base + sigma *", "base + sigma**2 *"),
    PlantedError(_LOSSES + "perturbed", "ignored argument", " if on_sphere else features", ""),
    PlantedError(
        _LOSSES + "perturbed",
        "wrong branch",
        "unit_directions(features).vectors if on_sphere else features",
        "features",
    ),
    PlantedError(_LOSSES + "perturbed", "factor", "sigma * noise", "sigma * 1.01 * noise"),
    PlantedError(_LOSSES + "perturbed", "sign", "base + sigma", "base - sigma"),
    PlantedError(
        _LOSSES + "positive_sampling_alignment",
        "sign",
        "p.vectors - t.vectors",
        "p.vectors + t.vectors",
    ),
    PlantedError(
        _LOSSES + "positive_sampling_alignment",
        "wrong reduction",
        " / max(math.prod(squares.shape), 1)",
        "",
    ),
    PlantedError(
        _LOSSES + "positive_sampling_alignment",
        "dropped",
        'directions_of("target", target)',
        'directions_of("target", target)._replace(vectors=target)',
    ),
    PlantedError(
        _LOSSES + "positive_sampling_alignment",
        "wrong formula",
        "xp.sum(difference * difference, axis=-1)",
        "2.0 - 2.0 * xp.sum(p.vectors * t.vectors, axis=-1)",
    ),
    PlantedError(
        _LOSSES + "positive_sampling_alignment",
        "wrong operator",
        "p.valid & t.valid",
        "p.valid | t.valid",
    ),
    PlantedError(
        _LOSSES + "positive_sampling_alignment",
        "wrong constant",
        "xp.full_like(squares, 2.0)",
        "xp.full_like(squares, 0.0)",
    ),
    PlantedError(
        _NOISE + "normal_noise", "ignored argument", "n + n % 2, stream,", "n + n % 2, 0,"
    ),
    PlantedError(_NOISE + "normal_noise", "ignored argument", "_words(key,", "_words(0,"),
    PlantedError(
        _NOISE + "normal_noise",
        "factor",
        "xp.sqrt(-2.0 * xp.log(1.0 - u))",
        "1.01 * xp.sqrt(-2.0 * xp.log(1.0 - u))",
    ),
    PlantedError(_NOISE + "normal_noise", "factor", "2.0 * math.pi * v", "math.pi * v"),
    PlantedError(
        _NOISE + "normal_noise",
        "wrong formula",
        "radius * xp.sin(angle)], axis",
        "radius * xp.cos(angle)], axis",
    ),
    PlantedError(_NOISE + "normal_noise", "wrong index", "drawn[:, 1]", "drawn[:, 0]"),
    PlantedError(
        _NOISE + "_words", "off by one", "xp.arange(1, n + 1,", "xp.arange(0, n,", ("P8", "P9")
    ),
    PlantedError(_NOISE + "_words", "dropped", " ^ _shifted(bits, LAST)", "", ("P8", "P9", "P13")),
    PlantedError(_NOISE + "_words", "dropped", " + _signed(key)", "", ("P8", "P9", "P13")),
    PlantedError(
        _NOISE + "MIXERS", "wrong constant", "0x94D049BB133111EB", "0x94D049BB133111EA", ("P8",)
    ),
    PlantedError(
        _NOISE + "_fractions",
        "wrong constant",
        "_shifted(words, 11)",
        "_shifted(words, 12)",
        ("P8",),
    ),
    # Prototypes
    PlantedError(
        _PROTOTYPES + "weighted_sums", "dropped", " * xp.astype(x.valid, xp.float64)[..., None]", ""
    ),
    PlantedError(
        _PROTOTYPES + "prototype_sums",
        "dropped",
        'x = directions_of("features", features)',
        'x = directions_of("features", features)._replace(vectors=features)',
    ),
    PlantedError(
        _PROTOTYPES + "weighted_sums", "axis", "xp.sum(share, axis=-2)", "xp.sum(share, axis=-1)"
    ),
    PlantedError(
        _PROTOTYPES + "weighted_sums",
        "factor",
        "PrototypeSums(sums,",
        "PrototypeSums(2.0 * sums,",
    ),
    PlantedError(
        _PROTOTYPES + "weighted_sums",
        "wrong reduction",
        "PrototypeSums(sums,",
        "PrototypeSums(sums / share.shape[0],",
    ),
    PlantedError(
        _PROTOTYPES + "prototype_sums",
        "off by one",
        "xp.arange(n_clusters, dtype",
        "xp.arange(1, n_clusters + 1, dtype",
    ),
    PlantedError(
        _PROTOTYPES + "prototype_sums",
        "wrong operator",
        "[:, None] == clusters",
        "[:, None] >= clusters",
    ),
    PlantedError(
        _PROTOTYPES + "prototype_sums",
        "wrong branch",
        "xp.astype(labels, xp.int64, copy=False)[:, None] == clusters",
        "xp.astype(labels % n_clusters, xp.int64)[:, None] == clusters",
    ),
    PlantedError(
        _PROTOTYPES + "normalize_sums",
        "dropped",
        "valid = (mass > least) & (squares >= MIN_RESULTANT**2)",
        "valid = mass > least",
    ),
    PlantedError(
        _PROTOTYPES + "normalize_sums",
        "factor",
        "squares >= MIN_RESULTANT**2",
        "squares >= MIN_RESULTANT",
    ),
    PlantedError(
        _PROTOTYPES + "normalize_sums",
        "dropped",
        "sums.sums / xp.clip(mass, min=least)",
        "sums.sums",
    ),
    PlantedError(
        _PROTOTYPES + "normalize_sums",
        "wrong formula",
        "mean / xp.sqrt(xp.clip(squares, min=MIN_RESULTANT**2))",
        "mean / xp.clip(squares, min=MIN_RESULTANT**2)",
    ),
    PlantedError(
        _PROTOTYPES + "normalize_sums",
        "dropped",
        "    mean = xp.where(valid, mean, xp.zeros_like(mass))\n",
        "",
    ),
    PlantedError(
        _PROTOTYPES + "batch_prototypes",
        "ignored argument",
        "dtype=at_least_float32(features).dtype",
        "dtype=None",
    ),
    PlantedError(
        _PROTOTYPES + "batch_prototypes",
        "sign",
        "prototype_sums(features, labels",
        "prototype_sums(-features, labels",
    ),
    PlantedError(
        _PROTOTYPES + "batch_prototypes",
        "dropped",
        "return normalize_sums(sums, dtype=at_least_float32(features).dtype)",
        "return Prototypes(sums.sums, sums.mass > 0)",
    ),
    PlantedError(
        _PROTOTYPES + "moving_average",
        "wrong order",
        "m * average + (1.0 - m) * xp",
        "(1.0 - m) * average + m * xp",
    ),
    PlantedError(
        _PROTOTYPES + "moving_average", "factor", "m * average + (1.0 - m) * xp", "m * average + xp"
    ),
    PlantedError(
        _PROTOTYPES + "moving_average",
        "swapped bounds",
        "momentum, 0.0, 1.0)",
        "momentum, 0.0, 2.0)",
    ),
    PlantedError(
        _PROTOTYPES + "update_prototypes",
        "dropped",
        "moved = normalize_sums(PrototypeSums(mixed, xp.astype(both, xp.float64)))",
        "moved = Prototypes(mixed, both)",
    ),
    PlantedError(
        _PROTOTYPES + "update_prototypes",
        "wrong argument",
        "momentum=momentum)",
        "momentum=1.0 - momentum)",
    ),
    PlantedError(
        _PROTOTYPES + "update_prototypes",
        "wrong branch",
        "xp.where(average.valid[:, None], average.vectors, batch.vectors)",
        "average.vectors",
    ),
    PlantedError(
        _PROTOTYPES + "update_prototypes",
        "wrong operator",
        "return Prototypes(vectors, average.valid | batch.valid)",
        "return Prototypes(vectors, average.valid & batch.valid)",
    ),
    PlantedError(_UNIT, "dropped", "x / xp.sqrt(xp.clip(squares, min=0.5 * smallest**2))", "x"),
    PlantedError(
        _UNIT,
        "axis",
        "squares = xp.sum(x * x, axis=-1, keepdims=True)",
        "squares = xp.sum(x * x, axis=0, keepdims=True)",
    ),
    PlantedError(_UNIT, "wrong branch", "if not is_narrow:", "if is_narrow:"),
    PlantedError(_UNIT, "wrong constant", ".smallest_normal) ** 0.5", ".smallest_normal)"),
)
