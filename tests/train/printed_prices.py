"""Prices of chunks as CoKe and SeCu print them, in NumPy loops: a part of both transcriptions."""

import numpy as np

from dualclust.algos.online.step_sizes import PUBLISHED


class ByPrices:
    """Labels by prices that move after each chunk: CoKe, Eqs. 10, 17 and 18; SeCu, section 2."""

    def set_steps(self, epoch):
        """h = min(kappa k / (gamma' n), 0.02), halved where both duals act, and its chunk."""
        b = self.bounds
        kappa = max(b.kappa * 0.5**epoch, b.kappa_floor)
        self.h = [min(kappa * k / ((b.lower or 1.0) * self.n), 0.02) for k in self.k]
        if 0 < b.lower < 1 and any(b.upper < k for k in self.k):
            self.h = [h / 2 for h in self.h]
        self.chunk = min(max(1, int(0.02 * k / h)) for k, h in zip(self.k, self.h, strict=True))

    def assign_by_prices(self, head, scores):
        """Labels by the prices of their chunk, then one dual step for the chunk."""
        k, m_batch = self.k[head], len(scores)
        h, chunk, free = self.h[head], self.chunk, self.bounds.lower == 1
        if self.bounds.steps != "measured":
            h, chunk = PUBLISHED[self.bounds.steps].eta / m_batch, m_batch
        rho, rho_up, labels = self.rho[head], self.rho_up[head], []
        for first in range(0, m_batch, chunk):
            counts = np.zeros(k)
            block = scores[first : first + chunk]
            for s in block:
                y = int(np.argmax(s + rho - rho_up))
                counts[y] += 1
                labels.append(y)
            rho = rho - h * (counts - len(block) * self.bounds.lower / k)
            if not free:
                rho = np.maximum(0.0, rho)
                most = min(self.bounds.upper / k, 1.0)
                rho_up = np.maximum(0.0, rho_up + h * (counts - len(block) * most))
        self.rho[head], self.rho_up[head] = rho, rho_up
        return labels
