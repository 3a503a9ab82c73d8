"""Stores written in Python, as the engine calls them.

An adapter serves requests `(key, offset, length, from_end, expected)`: `length` None means the whole object, `from_end`
the last `length` bytes; `expected` is the version that it must have, or None. It has either `fetch(*request)`, called
on the reading threads, or `submit(requests, pending)`, which returns at once and completes each on an event loop. The
result is the bytes, or None if the object does not exist. If `versions` is true, it is `(bytes, version)`, or False if
the version differs.

`list(prefix, children)` lists names. If `writable` is true, `store(key, value, absent, expected)` replaces an object
and returns its new version if there is one, or False if the condition (absent, or the expected version) does not hold;
`remove(key)` removes one, also if it does not exist. An adapter with `submit` also has `submit_writes(requests,
pending)`: requests are those of `store`, with None as the value of an object that is removed, and each is completed on
the event loop with the result of `store`.

`requests` has what all of them use, `asynchronous` the base of adapters with `submit`, `event_loop` its loop. Each of
the other modules has the adapters of one kind of store.
"""
