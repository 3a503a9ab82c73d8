"""Arguments of `penstock.loader` and their errors."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import penstock as ps
import pytest
from support.loaders import all_of, make, rows


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"crop": {"z": 3}}, "no array has a dimension 'z'"),
        ({"crop": {0: 61}}, "does not fit into axis 0, which has 60 elements"),
        ({"crop": {1: 6}}, "does not fit into axis 1, which has 5 elements"),
        ({"crop": {1: 4}, "samples": [[2]]}, "sample 0 begins at 2 of axis 1"),
        ({"crop": {0: 0}}, "at least 1"),
        ({"crop": {}}, "has no axis"),
        ({"crop": (4, 4)}, r"crop must be a mapping .*, got \(4, 4\)"),
        ({"stride": 2}, "stride must be a mapping"),
        ({"stride": {1: 2}}, "not an axis of crop"),
        ({"samples": [[60]]}, "sample 0 begins at 60"),
        ({"samples": [[1.5]]}, "whole numbers"),
        ({"samples": []}, "whole numbers|must not be empty"),
        ({"batch_size": 0}, "batch_size"),
        ({"window": "1B"}, "does not hold the chunks of one sample"),
        ({"dtype": "S4"}, "int32|cannot"),
        ({"scale": [1, 2]}, "along"),
        ({"scale": [1, 2], "along": 1}, "scale has 2 numbers"),
        ({"scale": 2, "dtype": "i4"}, "float32 or float64"),
        ({"rank": 2, "ranks": 2}, "rank must be"),
        ({"dtype": {"a": "f4"}}, "no array 'a'"),
        ({"dims": "yx"}, "not the names"),
        ({"depth": -1}, "depth"),
        ({"pad": {0: (1, 1, 1)}, "crop": {0: 2}}, "one for each end"),
        ({"pad": {0: 1.5}, "crop": {0: 2}}, "whole number"),
        ({"fill": np.nan}, "fill nan is not a value of int32"),
        ({"fill": 2**31}, "is not a value of int32"),
        ({"fill": 0.5}, "is not a value of int32"),
        ({"fill": "3"}, "is not a value of int32"),
        ({"fill": 2, "dtype": "?"}, "fill 2 is not a value of bool"),
        ({"fill": 1j, "dtype": "f4"}, "fill 1j is not a value of float32"),
        ({"fill": "a", "dtype": "f4"}, "fill 'a' is not a value of float32"),
        ({"fill": []}, r"fill \[\] is not a value of int32"),
        ({"scale": "a"}, "scale must be a number"),
        ({"offset": 1j}, "offset must be a number"),
        ({"offset": np.array([1j])}, "offset must be a number"),
        ({"scale": [None]}, "scale must be a number"),
        ({"scale": "1"}, "scale must be a number"),
        ({"scale": np.datetime64(3, "s")}, "scale must be a number"),
        ({"fill": 2**64}, "is not a value of int32"),
        ({"samples": [[1], [1, 2]]}, "samples must be whole numbers"),
        ({"dims": 5}, "not the names"),
    ],
)
def test_invalid_arguments_are_refused(arguments, says):
    _, a = rows()
    with pytest.raises(ps.Error, match=says):
        ps.loader(a, **arguments)


@pytest.mark.parametrize(("dtype", "fill"), [("u1", 255), ("u1", 9.0), ("i2", -1), ("f4", np.nan), ("f4", 0.1)])
def test_a_fill_of_the_batches_type_is_taken(dtype, fill):
    a = ps.create_array({}, data=np.ones((4, 2), dtype), chunks=(2, 2))
    ends = np.array([1, 0])
    (batch,) = ps.loader(a, crop={0: 5}, pad={0: ends}, fill=fill, shuffle=False)
    assert np.asarray(batch)[0, 0].tobytes() == np.array([fill] * 2, dtype).tobytes()


def test_arrays_of_different_lengths_are_refused_by_name(tmp_path):
    _, a = rows(path=tmp_path / "a.zarr")
    _, b = rows(59, path=tmp_path / "b.zarr")
    with pytest.raises(ps.InvalidArgumentError, match=r"60 elements in one array and 59(.|\n)*a.zarr(.|\n)*b.zarr"):
        ps.loader([a, b])


def test_errors_name_the_dimension_of_the_array():
    a = make(np.zeros((8, 100), "i4"), (4, 10), names=("t", "x"))
    b = make(np.zeros((8, 90), "i4"), (4, 10))
    with pytest.raises(ps.InvalidArgumentError, match="does not fit into dimension 'x', which has 100 elements"):
        ps.loader(a, crop={"x": 101})
    with pytest.raises(ps.InvalidArgumentError, match="dimension 'x' has 100 elements in one array and 90"):
        ps.loader([a, b], crop={"x": 10}, dims=("t", "x"))
    with pytest.raises(ps.InvalidArgumentError, match="axis 1 has 90 elements in one array and 100"):
        ps.loader([b, a], crop={1: 10})
    with pytest.raises(ps.InvalidArgumentError, match="sequence or mapping"):
        ps.loader([np.zeros(3)])


def test_batches_have_at_most_32_dimensions():
    a = make(np.zeros((1,) * 32, "i4"), (1,) * 32)
    with pytest.raises(ps.InvalidArgumentError, match="at most 31 dimensions"):
        ps.loader(a, crop={0: 1})
    assert len(next(iter(ps.loader(a, crop={0: None}))).shape) == 32


def test_a_state_of_another_order_is_refused():
    _, a = rows()
    state = ps.loader(a, batch_size=8).state_dict()
    for other in ({"batch_size": 7}, {"seed": 1}, {"window": 140 * 3}, {"shuffle": False}):
        with pytest.raises(ps.InvalidArgumentError, match="the state has"):
            ps.loader(a, **{"batch_size": 8, **other}).load_state_dict(state)
    batches = ps.loader(a, batch_size=8)
    batches.load_state_dict({name: value for name, value in state.items() if name != "shuffle"})  # of earlier versions
    for rank in range(2):
        late = ps.loader(a, batch_size=8, rank=rank, ranks=2)
        late.load_state_dict({**state, "batch": 2**64 - 1})
        assert all_of(late) == []
    for name in ("epoch", "batch"):
        with pytest.raises(ps.InvalidArgumentError, match=f"{name} of the state must be a whole number"):
            batches.load_state_dict({key: value for key, value in state.items() if key != name})
    with pytest.raises(ps.InvalidArgumentError, match="state must be a mapping"):
        batches.load_state_dict([])
    for name in ("epoch", "batch"):
        with pytest.raises(ps.InvalidArgumentError, match=f"{name} of the state must be less than 2"):
            ps.loader(a, batch_size=8).load_state_dict({**state, name: 2**64})


def test_options_have_the_names_of_torch_and_of_samples() -> None:
    a = ps.create_array({}, data=np.arange(40.0).reshape(20, 2), chunks=(3, 2), dimension_names=("t", "x"))
    ours = ps.loader(a, crop={"t": 2}, batch_size=2, rank=1, ranks=2)
    theirs = ps.loader(a, sample={"t": 2}, batch_size=2, rank=1, world_size=2)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    with pytest.raises(ps.InvalidArgumentError, match="crop and sample"):
        ps.loader(a, crop={"t": 2}, sample={"t": 2})
    with pytest.raises(ps.InvalidArgumentError, match="memory and memory_limit"):
        ps.rechunk(a, {}, (20, 1), memory=1, memory_limit="1MiB")
    assert ps.convert(a, {}, chunks=(20, 1), memory_limit="1MiB").chunks == (20, 1)


def test_arguments_that_no_loader_supports_are_named() -> None:
    text = ps.create_array({}, data=np.array(["a", "b"]).astype("T"))
    with pytest.raises(ps.UnsupportedError, match="elements of fixed size"):
        ps.loader(text)
    with pytest.raises(ps.InvalidArgumentError, match=r"got str: penstock\.open opens a path"):
        ps.loader("x.zarr")
    with pytest.raises(ps.InvalidArgumentError, match="got ndarray"):
        ps.loader({"x": np.zeros(3)})


@pytest.mark.parametrize(("shape", "chunks"), [((2**50,), (2**10,)), ((2**45,), (1,)), ((2**22, 2**22), (1, 1))])
def test_more_samples_than_an_epoch_has_are_refused_at_once(shape, chunks):
    a = ps.create_array({}, shape=shape, dtype="u1", chunks=chunks)
    with pytest.raises(ps.InvalidArgumentError, match="samples are too many for one epoch"):
        ps.loader(a, crop=dict.fromkeys(range(len(shape)), 1))


def test_an_epoch_whose_plan_exceeds_the_memory_limit_is_refused():
    context = ps.Context(memory_limit="1MiB")
    a = ps.create_array({}, data=np.arange(100_000), chunks=(1000,), context=context)
    with pytest.raises(ps.ResourceExhaustedError, match=r"100000 samples takes 4800000 bytes or more.* is 1048576"):
        next(iter(ps.loader(a)))
    with pytest.raises(ps.ResourceExhaustedError, match="of 1000000000 samples takes"):
        next(iter(ps.loader(a, samples=10**9)))
    # Each of 100 ranks plans its own part.
    assert next(iter(ps.loader(a, rank=3, ranks=100, batch_size=8))).shape == (8,)
    a = ps.create_array({}, data=np.arange(100_000), chunks=(1000,), context=ps.Context(memory_limit="64MiB"))
    assert sum(batch.shape[0] for batch in ps.loader(a, batch_size=1000)) == 100_000


def test_an_epoch_that_memory_does_not_hold_is_an_error():
    program = """
import resource
import numpy as np, penstock as ps
context = ps.Context(memory_limit=2**50, chunk_cache=0)
loader = ps.loader(ps.create_array({}, data=np.arange(20), chunks=(5,), context=context), samples=2**32)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
try:
    next(iter(loader))
except ps.ResourceExhaustedError as error:
    print(error.message)
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout == "the system has no memory for the order of 4294967296 samples\n"
