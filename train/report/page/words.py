"""What the page of a run says in words: figures, alarms, sentences about sizes, settings."""

from __future__ import annotations

import html
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from ....common.page.sections import allowed_sizes, shared_fields, tiles_html
from ...config.schema import flat
from ..heads import evaluated_clusters
from .advice import advice, finite, latest_alarms
from .heads import heads_html
from .state import RunState
from .symptoms import SYMPTOMS

__all__ = ["fields_of"]

NAV = (
    ("try", "What to try next"),
    ("gallery", "Gallery"),
    ("alike", "Near-duplicates"),
    ("sizes", "Sizes and prices"),
    ("curves", "Curves"),
    ("map", "Map"),
    ("clusters", "Clusters"),
    ("confusion", "Classes"),
    ("doubtful", "Doubtful"),
    ("run", "Settings"),
)

PRICED = ("secu", "coke")
"""Methods that label each batch at prices; the others bound labels elsewhere or not at all."""


def fields_of(state: RunState, parts: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the fields of the template as HTML; everything from the user is escaped.

    Parameters
    ----------
    state : RunState
    parts : mapping or None
        As of `advice`.
    """
    k, n = len(state.lower), state.n_samples
    at = state.records[-1]["epoch"] if state.records else 0
    goes_on = not state.done and not state.stopped
    progress = f"Epoch {at:,} of {state.epochs:,}" + ("" if goes_on else ", the run has ended")
    if state.stopped:
        progress = f"Stopped in epoch {at:,} of {state.epochs:,}"
    return {
        **shared_fields(
            NAV,
            rows="samples",
            find="file",
            orders=("number", "size", "price"),
            sizes_note=_sizes_note(state, parts),
            known=False,
            meta='<meta http-equiv="refresh" content="60">' if goes_on else "",
        ),
        "title": html.escape(state.title),
        "heading": f"{k:,} clusters of {n:,} samples by {html.escape(state.method)}",
        "summary": f"{progress}. {_summary(state, parts)}",
        "tiles": _tiles(state, parts),
        "alarms": _alarms(state),
        "heads": heads_html(state.records, k, done=state.done),
        "advice": _advice(state, parts),
        "epoch_note": _epoch_note(state, parts),
        "settings": "".join(_settings(state.settings)),
        "versions": "".join(
            f"<tr><th scope=row>{html.escape(name)}</th><td>{html.escape(version)}</td></tr>"
            for name, version in state.versions.items()
        ),
    }


def _summary(state: RunState, parts: Mapping[str, Any] | None) -> str:
    if state.stopped:
        return f"<strong>{html.escape(state.stopped)}</strong>"
    if not state.records:
        return "The first epoch is under way; this page is written again after each."
    last = state.records[-1]
    if last.get("alarms"):
        amount = len(last["alarms"])
        found = "an alarm" if amount == 1 else f"{amount} alarms"
        return f"<strong>The last epoch raised {found}: read the first card.</strong>"
    if parts is None:
        return "Clusters are shown after the first evaluation (evaluation.every)."
    low, high = min(parts["counts"]), max(parts["counts"])
    return f"Sizes inside the bounds are {low:,} to {high:,}; no alarm in the last epoch."


def _tiles(state: RunState, parts: Mapping[str, Any] | None) -> str:
    last = state.records[-1] if state.records else {}
    tiles = [("Epoch", f"{last.get('epoch', 0):,} of {state.epochs:,}", _rate(last))]
    loss = last.get("loss")
    tiles.append(("Loss", f"{loss:.4g}" if finite(loss) else "–", "mean of the last epoch"))
    sizes = state.trained if parts is None else parts["counts"]
    which = "labels of training" if parts is None else f"in bounds, epoch {parts['epoch']:,}"
    tiles.append(("Sizes", f"{min(sizes):,} to {max(sizes):,}", which))
    low, high = int(state.lower.min()), int(state.upper.max())
    allowed = allowed_sizes(low, high, state.n_samples)
    tiles.append(("Bounds", allowed, "smallest to largest allowed"))
    if not state.records or "churn" in last:  # a method without steps has none
        churn = last.get("churn")
        shown = f"{churn:.1%}" if finite(churn) else "–"
        tiles.append(("Churn", shown, "changed in the last epoch"))
    tiles.append(_agreement(state))
    return tiles_html(tiles)


def _rate(last: Mapping[str, Any]) -> str:
    return f"learning rate {last['lr']:.3g}" if finite(last.get("lr")) else ""


def _agreement(state: RunState) -> tuple[str, str, str]:
    """Return the figure of the papers' protocol, where there are classes and of the head shown."""
    shown = len(state.lower)
    target = shown if state.followed is None else state.followed[0]
    for prefix, what in (("test_", "held-out samples, argmax"), ("argmax_", "argmax")):
        for record in reversed(state.records):
            if f"{prefix}acc" in record:
                acc = f"{record[f'{prefix}acc']:.3f}"
                of = evaluated_clusters(record, target=target, epochs=state.epochs)
                if of != shown:
                    return "ACC", "–", f"not evaluated for k = {shown}; k = {of}: {acc}"
                return "ACC", acc, f"{what}; NMI {record[f'{prefix}nmi']:.3f}"
    gap = [record for record in state.records if finite(record.get("effective_clusters"))]
    if gap and evaluated_clusters(gap[-1], target=target, epochs=state.epochs) == shown:
        return "In use", f"{gap[-1]['effective_clusters']:.1f}", "effective number of clusters"
    return "Samples", f"{state.n_samples:,}", "without classes"


def _alarms(state: RunState) -> str:
    found = latest_alarms(state.records)
    lines = [
        f"<li><strong>{html.escape(name.capitalize())}</strong>, epoch {epoch:,}: "
        f"{html.escape(seen)}. {html.escape(SYMPTOMS[name].cause)} "
        f"<em>What to do:</em> {html.escape(SYMPTOMS[name].remedy)}</li>"
        for name, (epoch, seen) in found.items()
    ]
    if not lines:
        return ""
    return (
        '<section class="card alarm" id="alarms"><h2>Alarms</h2>'
        f'<ul class="plainlist">{"".join(lines)}</ul></section>'
    )


def _advice(state: RunState, parts: Mapping[str, Any] | None) -> str:
    found = [pair for pair in advice(state, parts) if not pair[0].startswith("Alarm")]
    if not found:
        words = (
            "No figure of this run asks for a change. How much chance decides, another seed tells: "
            "<code>dualclust report RUN RUN</code> puts runs side by side."
        )
        return f"<p>{words}</p>"
    return "".join(
        f"<p><strong>{html.escape(seen)}</strong> {html.escape(try_)}</p>" for seen, try_ in found
    )


def _sizes_note(state: RunState, parts: Mapping[str, Any] | None) -> str:
    if state.method in PRICED:
        why = (
            "Labels of training are chosen batch by batch, at prices that move while the network "
            "does: their sizes come near the bounds and may leave them."
        )
    elif state.method == "graph":
        why = "Labels of training are those of k-means with bounds, and stay inside them."
    else:
        why = (
            f"Labels of training are those of {html.escape(state.method)}, whose loss knows no "
            "bound on sizes: they may leave the bounds."
        )
    then = "The labels that a run writes are solved for all samples at once, and stay inside."
    bars = "Bars: sizes by the labels of training."
    if parts is not None:
        bars = "Bars: sizes of the labels inside the bounds; strokes: by the labels of training."
    return f"{bars} {why} {then}"


def _epoch_note(state: RunState, parts: Mapping[str, Any] | None) -> str:
    if parts is None:
        return ""
    note = f"As of epoch {parts['epoch']:,}."
    if parts["left_out"]:
        note += f" {parts['left_out']:,} images are left out, to keep the page small."
    return note


def _settings(text: str) -> Iterator[str]:
    """Yield a row for each setting of a TOML text."""
    for name, value in flat(tomllib.loads(text)):
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        yield f"<tr><th scope=row>{html.escape(name)}</th><td>{html.escape(shown)}</td></tr>"
