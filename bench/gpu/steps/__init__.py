"""The steps of a run on hardware, in the order in which they make sense. Each module's `rows(run)` gives what it does:
a name and a function for each row, begun while the step has time left. A row that fails costs itself alone.
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
