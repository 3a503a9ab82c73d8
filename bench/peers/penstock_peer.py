from __future__ import annotations

from typing import Any

from . import Peer, Source


class Penstock(Peer):
    name = "penstock"

    def __init__(self, threads: int) -> None:
        super().__init__(threads)
        self._context: Any = None

    def unavailable(self, source: Source) -> str:
        try:
            import penstock
        except ImportError as error:
            return f"not built: {error}"
        return "" if hasattr(penstock, "open") else "not built"

    def open(self, source: Source) -> Any:
        import penstock as ps

        with self.active():
            return ps.open(source if isinstance(source, dict) else str(source))

    def active(self) -> Any:
        """The context of all that this peer opens: profiles are taken of it."""
        import penstock as ps

        if self._context is None:
            self._context = ps.Context(threads=self.threads)
        return self._context
