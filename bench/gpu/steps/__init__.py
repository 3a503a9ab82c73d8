"""The steps of a run on hardware, in their usual order. Each module's `rows(run)` yields a name and a function for each
row, which begins while the step has time left. A row that fails does not end the others.
"""

from __future__ import annotations

from bench.gpu.steps import bars, clean, nvcomp, smoke, switches, why

STEPS = {
    "smoke": smoke.rows,
    "clean": clean.rows,
    "bars": bars.rows,
    "nvcomp": nvcomp.rows,
    "why": why.rows,
    "switches": switches.rows,
}
