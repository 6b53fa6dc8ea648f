"""What `make check` runs: one test file for each idea, in 90 s; `make test` runs them all.

    python -m tests.quick        prints the files

Each sub-package has the file that says most of it in a few seconds. A new one needs its line:
`tests/house/test_quick.py` fails without it.
"""

from __future__ import annotations

__all__ = ["QUICK"]

QUICK = {
    "algos": "tests/unit/test_refusals.py",
    "algos/baselines": "tests/unit/baselines/test_sign_rule.py",
    "algos/batches": "tests/unit/batches/test_hard.py",
    "algos/bounds": "tests/unit/bounds/test_sizes.py",
    "algos/clustering": "tests/unit/clustering/test_kmeans_euclidean.py",
    "algos/core": "tests/unit/core/test_checks.py",
    "algos/losses": "tests/unit/losses/test_secu_gradients.py",
    "algos/losses/gatcluster": "tests/unit/losses/gatcluster/test_grouping.py",
    "algos/losses/information": "tests/unit/losses/information/test_joint.py",
    "algos/losses/propos": "tests/unit/losses/propos/test_prototypes.py",
    "algos/offline": "tests/unit/offline/test_candidates.py",
    "algos/offline/grouped": "tests/unit/offline/grouped/test_grouped_assignment.py",
    "algos/offline/weighted": "tests/unit/offline/weighted/test_weighted_assignment.py",
    "algos/online": "tests/unit/online/test_assignment_passes.py",
    "algos/pseudo_labels": "tests/unit/pseudo_labels/test_solver_residual.py",
    "algos/scores": "tests/unit/scores/test_blocks.py",
    "algos/selection": "tests/unit/selection/test_agreement.py",
    "algos/theory": "tests/unit/theory/test_equivalence.py",
    "backends": "tests/backends/test_table.py",
    "dualclust": "tests/house/test_exports.py",
    "dualclust/cli": "tests/cli/test_demo_folders.py",
    "dualclust/cluster": "tests/cluster/test_products.py",
    "dualclust/common/formats": "tests/cluster/test_mistaken_files.py",
    "dualclust/cluster/report": "tests/cluster/test_row_entries.py",
    "dualclust/common": "tests/cli/test_cli_cluster_errors.py",
    "dualclust/common/page": "tests/train/report/test_run_page.py",
    "dualclust/estimators": "tests/estimators/test_estimator_inputs.py",
    "dualclust/torch": "tests/own_loop/test_routing.py",
    "proofs": "tests/proofs/test_registry.py",
    "proofs/coke": "tests/proofs/test_coke.py",
    "proofs/constraints": "tests/proofs/test_constraints.py",
    "proofs/gatcluster": "tests/proofs/test_gatcluster.py",
    "proofs/mi_margin": "tests/proofs/test_mi_margin.py",
    "proofs/planted": "tests/proofs/test_planted_runs.py",
    "proofs/planted/tables": "tests/proofs/test_planted_runs.py",
    "proofs/propos": "tests/proofs/test_propos.py",
    "proofs/references": "tests/proofs/test_theorem.py",
    "proofs/registry": "tests/proofs/test_registry.py",
    "proofs/secu": "tests/proofs/test_secu.py",
    "proofs/theorem_r": "tests/proofs/test_theorem.py",
    "train": "tests/train/test_groups.py",
    "train/augment": "tests/train/augment/test_augment.py",
    "train/comparison": "tests/train/comparison/test_preference.py",
    "train/config": "tests/train/config/test_config.py",
    "train/config/methods": "tests/train/config/test_recipes.py",
    "train/data": "tests/train/data/test_data.py",
    "train/loop": "tests/train/loop/test_run_results.py",
    "train/methods": "tests/train/methods/coke/test_released_coke.py",
    "train/methods/gatcluster": "tests/train/methods/gatcluster/test_gatcluster_run.py",
    "train/methods/mi_margin": "tests/train/methods/mi_margin/test_mi_restarts.py",
    "train/methods/propos": "tests/train/methods/propos/test_propos_labels.py",
    "train/models": "tests/train/models/test_model_inputs.py",
    "train/networks": "tests/train/networks/test_gatcluster_networks.py",
    "train/own_data": "tests/train/own_data/test_choices.py",
    "train/recipes": "tests/train/config/test_recipes.py",
    "train/report": "tests/train/networks/test_gatcluster_networks.py",
    "train/report/page": "tests/train/report/test_run_page.py",
    "train/state": "tests/train/state/test_checkpoint.py",
}

if __name__ == "__main__":
    print(*dict.fromkeys(QUICK.values()))
