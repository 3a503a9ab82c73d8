"""Writes an array of many chunks to an object store that answers late, in turns with other libraries.

The ceiling is a client that puts the encoded chunks from memory over the same number of connections. A writer's
additional time is encoding that did not overlap with requests.
"""

from __future__ import annotations

import http.client
import importlib.util
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import numpy as np
from harness.put_server import COUNT, taking
from harness.result import Bar, Result
from harness.setting import Setting
from harness.timing import in_turns, once, paired

BUCKET = "bench"


def run(scenario: dict, setting: Setting) -> Result:
    result = Result(scenario["name"], scenario["title"])
    latency, together = scenario["latency_ms"] / 1e3, scenario["connections"]
    values = made(scenario["chunks"], scenario["chunk_bytes"], scenario["kept_bits"])
    with taking(latency) as root:
        contestants: dict[str, Callable[[], float]] = {}
        for name, (needs, begin) in WRITERS.items():
            if missing := [module for module in needs if not importlib.util.find_spec(module)]:
                result.left_out[name] = f"not installed: {', '.join(missing)}"
                continue
            target = begin(root, name.replace(" ", "-"), values.shape, scenario, setting.threads)
            target(values)  # opens its connections, and creates the objects that each turn replaces
            contestants[name] = once(lambda target=target: target(values))
            if not same(root, name.replace(" ", "-"), values, scenario):
                result.failed = f"{name} wrote wrong values"
        bodies = stored(root, "penstock", scenario["chunks"])
        with ThreadPoolExecutor(together) as pool:
            client = Client(root, pool, together)
            client.put(bodies)
            contestants["ready bytes"] = once(lambda: client.put(bodies))
            samples = in_turns(contestants, scenario["turns"])
        asked = count(root)
    result.notes.append(f"{len(bodies)} objects of {sum(map(len, bodies)) / len(bodies) / 1e6:.2f} MB; {asked}")
    result.ceilings["ready bytes"] = values.nbytes / samples["ready bytes"].best
    for name, taken in samples.items():
        if name != "ready bytes":
            row = result.add(name, taken, bytes_out=values.nbytes)
            row.fraction_of_ceiling = paired(taken, samples["ready bytes"])
    ours = samples["penstock"]
    if "at_least_of_ready" in scenario:
        text = f"penstock against {together} parallel puts of ready bytes, median of turns"
        of_ready = paired(ours, samples["ready bytes"])
        result.bars.append(Bar(text, of_ready, scenario["at_least_of_ready"], at_least=True, unit="x"))
    ours_by_name = {name for name in samples if name.startswith("penstock")}
    others = {name: taken for name, taken in samples.items() if name not in {*ours_by_name, "ready bytes"}}
    if others:
        fastest = min(others, key=lambda name: others[name].best)
        ratio = others[fastest].best / ours.best
        result.bars.append(Bar(f"penstock against {fastest}", ratio, 1.0, at_least=True, unit="x"))
    return result


def made(chunks: int, chunk_bytes: int, kept_bits: int) -> np.ndarray:
    """float32 noise rounded to `kept` bits, so that it can be compressed."""
    noise = np.random.default_rng(1).random(chunks * chunk_bytes // 4, dtype=np.float32)
    bits = noise.view(np.uint32)
    bits &= np.uint32(0xFFFF_FFFF << (32 - kept_bits) & 0xFFFF_FFFF)
    return bits.view(np.float32)


class Client:
    """Puts bytes over persistent connections, with one thread each."""

    def __init__(self, root: str, pool: ThreadPoolExecutor, together: int) -> None:
        address = urlsplit(root)
        self.pool = pool
        self.lines = [http.client.HTTPConnection(address.hostname or "", address.port) for _ in range(together)]

    def put(self, bodies: list[bytes]) -> None:
        list(self.pool.map(lambda which: self.share(which, bodies), range(len(self.lines))))

    def share(self, which: int, bodies: list[bytes]) -> None:
        line = self.lines[which]
        for number in range(which, len(bodies), len(self.lines)):
            line.request("PUT", f"/{BUCKET}/ready/{number}", bodies[number])
            answer = line.getresponse()
            answer.read()
            if answer.status != 200:
                raise RuntimeError(f"the server answered {answer.status}")


def fetch(root: str, path: str) -> bytes:
    address = urlsplit(root)
    line = http.client.HTTPConnection(address.hostname or "", address.port)
    line.request("GET", path)
    answer = line.getresponse()
    return answer.read()


def stored(root: str, name: str, chunks: int) -> list[bytes]:
    return [fetch(root, f"/{BUCKET}/{name}/c/{number}") for number in range(chunks)]


def count(root: str) -> str:
    requests, together = fetch(root, COUNT).split()
    return f"at most {int(together)} requests were under way together, of {int(requests)}"


def same(root: str, name: str, values: np.ndarray, scenario: dict) -> bool:
    """Decode some of the chunks with numcodecs and compare them."""
    import numcodecs

    per_chunk = scenario["chunk_bytes"] // 4
    for number in (0, scenario["chunks"] // 2, scenario["chunks"] - 1):
        body = fetch(root, f"/{BUCKET}/{name}/c/{number}")
        if scenario["codec"] == "zstd":
            body = numcodecs.Zstd().decode(body)
        if not np.array_equal(np.frombuffer(body, np.float32), values[number * per_chunk :][:per_chunk]):
            return False
    return True


Write = Callable[[np.ndarray], None]


def codecs(scenario: dict) -> list[dict]:
    out: list[dict] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if scenario["codec"] == "zstd":
        out.append({"name": "zstd", "configuration": {"level": 1, "checksum": False}})
    return out


def penstock(root: str, name: str, shape: tuple[int, ...], scenario: dict, threads: int) -> Write:
    import penstock as ps

    options = {"endpoint_url": root, "anon": True}
    with ps.Context(threads=threads, io_concurrency=scenario["connections"]):
        array = ps.create_array(
            f"s3://{BUCKET}/{name}",
            shape=shape,
            dtype="float32",
            chunks=(scenario["chunk_bytes"] // 4,),
            codecs=codecs(scenario),
            storage_options=options,
        )

    def write(values: np.ndarray) -> None:
        array[...] = values

    return write


def penstock_with_obstore(root: str, name: str, shape: tuple[int, ...], scenario: dict, threads: int) -> Write:
    """Through a store in Python: each put is a task of an event loop."""
    import penstock as ps

    with ps.Context(threads=threads, io_concurrency=scenario["connections"]):
        array = ps.create_array(
            obstore_bucket(root, name),
            shape=shape,
            dtype="float32",
            chunks=(scenario["chunk_bytes"] // 4,),
            codecs=codecs(scenario),
        )

    def write(values: np.ndarray) -> None:
        array[...] = values

    return write


def obstore_bucket(root: str, name: str):
    import obstore

    return obstore.store.S3Store(
        BUCKET,
        prefix=name,
        endpoint=root,
        region="us-east-1",
        skip_signature=True,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
    )


def zarr_with_obstore(root: str, name: str, shape: tuple[int, ...], scenario: dict, threads: int) -> Write:
    import zarr
    from zarr.storage import ObjectStore

    zarr.config.set({"async.concurrency": scenario["connections"], "threading.max_workers": threads})
    array = zarr.create_array(
        ObjectStore(obstore_bucket(root, name)),
        shape=shape,
        dtype="float32",
        chunks=(scenario["chunk_bytes"] // 4,),
        compressors=[zarr.codecs.ZstdCodec(level=1)] if scenario["codec"] == "zstd" else None,
        fill_value=0,
        overwrite=True,
    )

    def write(values: np.ndarray) -> None:
        array[...] = values

    return write


def tensorstore(root: str, name: str, shape: tuple[int, ...], scenario: dict, threads: int) -> Write:
    import tensorstore as ts

    context = ts.Context(
        {
            "data_copy_concurrency": {"limit": threads},
            "s3_request_concurrency": {"limit": scenario["connections"]},
        }
    )
    grid = {"name": "regular", "configuration": {"chunk_shape": [scenario["chunk_bytes"] // 4]}}
    array = ts.open(
        {
            "driver": "zarr3",
            "kvstore": {
                "driver": "s3",
                "bucket": BUCKET,
                "path": f"{name}/",
                "endpoint": root,
                "aws_region": "us-east-1",
                "aws_credentials": {"type": "anonymous"},
            },
            "metadata": {
                "shape": list(shape),
                "data_type": "float32",
                "chunk_grid": grid,
                "codecs": codecs(scenario),
                "fill_value": 0,
            },
        },
        context=context,
        create=True,
        delete_existing=False,
    ).result()

    def write(values: np.ndarray) -> None:
        array.write(values).result()

    return write


WRITERS: dict[str, tuple[tuple[str, ...], Callable[..., Write]]] = {
    "penstock": (("penstock",), penstock),
    "penstock and obstore": (("penstock", "obstore"), penstock_with_obstore),
    "zarr-python and obstore": (("zarr", "obstore"), zarr_with_obstore),
    "tensorstore": (("tensorstore",), tensorstore),
}
