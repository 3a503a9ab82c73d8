"""The base of adapters for asynchronous stores."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.errors import UnsupportedError
from penstock.core.job import answers
from penstock.target.adapters.event_loop import answering, event_loop, refuse_to_wait
from penstock.target.adapters.requests import Put, Request, Stored

if TYPE_CHECKING:
    import asyncio

_Method = Callable[..., Coroutine[Any, Any, Any]]


class AsyncAdapter:
    """Base of adapters for asynchronous stores: all requests of one call run concurrently."""

    _CHECK_SECONDS = 0.05
    writable = False
    versions = False

    def loop(self) -> asyncio.AbstractEventLoop:
        return event_loop.get()

    async def get(self, key: str, offset: int, length: int | None, from_end: bool, expected: str | None) -> Any:
        raise NotImplementedError

    async def list_keys(self, prefix: str, children: bool) -> list[str]:
        raise NotImplementedError

    async def set_value(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        raise NotImplementedError

    def submit(self, requests: list[Request], pending: Any) -> None:
        self._begin(self.get, requests, pending)

    def submit_writes(self, requests: list[Put | None], pending: Any) -> None:
        self._begin(self._write, requests, pending)

    async def _write(self, key: str, value: bytes | None, absent: bool, expected: str | None) -> Stored:
        if value is not None:
            return await self.set_value(key, value, absent, expected)
        await self.delete(key)
        return None

    def _begin(self, method: _Method, requests: Sequence[tuple[Any, ...] | None], pending: Any) -> None:
        import asyncio

        loop = self.loop()
        refuse_to_wait(loop)
        answers.add(asyncio.run_coroutine_threadsafe(self._answer_all(method, requests, pending), loop))

    async def _answer(self, which: int, method: _Method, request: tuple[Any, ...], pending: Any) -> None:
        try:
            value = await method(*request)
        except BaseException as error:
            self._complete(pending.failed, which, error)
            return
        try:
            self._complete(pending.done, which, value)
        except BaseException as error:
            self._complete(pending.failed, which, error)

    @staticmethod
    def _complete(complete: Callable[[int, Any], None], which: int, value: Any) -> None:
        before, answering.on = answering.on, True
        try:
            complete(which, value)
        finally:
            answering.on = before

    async def _answer_all(self, method: _Method, requests: Sequence[tuple[Any, ...] | None], pending: Any) -> None:
        import asyncio

        begun = [self._answer(i, method, one, pending) for i, one in enumerate(requests) if one is not None]
        waiting = {asyncio.ensure_future(one) for one in begun}
        while waiting:
            _, waiting = await asyncio.wait(waiting, timeout=self._CHECK_SECONDS)
            if waiting and pending.stopped:
                for task in waiting:
                    task.cancel()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        import asyncio

        loop = self.loop()
        try:
            refuse_to_wait(loop)
        except UnsupportedError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    def list(self, prefix: str, children: bool) -> list[str]:
        return self._wait(self.list_keys(prefix, children))  # type: ignore[no-any-return]

    def store(self, key: str, value: bytes, absent: bool, expected: str | None) -> Stored:
        return self._wait(self.set_value(key, value, absent, expected))  # type: ignore[no-any-return]

    def remove(self, key: str) -> None:
        self._wait(self.delete(key))
