"""The locations that a document may name: references, manifests and virtual files determine further reads.

One rule, applied to the resolved location (after templates, relative names and `remote_protocol`), for every kind of
document: a document in the local file system may name any location. A document from elsewhere (a URL, an in-memory file
system, a Python store) may name network locations and locations of its own file system. It may name local files only if
the caller passes `allow_local=True`. Schemes are on a list of those that are allowed: an unknown scheme is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.core.errors import Error, InvalidArgumentError, UnsupportedError

# File systems that reach other machines only. `git`, `dir`, `dask`, `reference`, `generic`, `dvc`, `lfs` and `memory`
# are missing on purpose: they read local files, this process, or documents that name further locations.
# fmt: off
_NETWORK = frozenset({
    "abfs", "abfss", "adl", "az", "azure", "box", "dbfs", "dropbox", "ftp", "ftps", "gcs", "gdrive", "gist",
    "github", "gs", "hdfs", "hf", "http", "https", "jlab", "jupyter", "lakefs", "oci", "ocilake", "oss", "r2",
    "root", "s3", "s3a", "sftp", "smb", "ssh", "tos", "tosfs", "wandb", "wasb", "wasbs", "webdav", "webhdfs",
})
# fmt: on
# File systems that read what the rest of a chain names: `simplecache::https://host/x`, `zip://member::s3://b/x.zip`.
_WRAPPERS = frozenset({"blockcache", "cached", "filecache", "libarchive", "simplecache", "tar", "zip"})
_LOCAL = frozenset({"file", "local", "asynclocal"})


def _schemes(location: str) -> list[str]:
    """The scheme of each link of a chain, the outermost first; "" for a link without one."""
    out = []
    for link in location.split("::"):
        scheme, separator, _ = link.partition("://")
        if not separator and link.lower() in _WRAPPERS:
            scheme, separator = link, "://"
        out.append(scheme.lower() if separator else "")
    return out


def is_local(location: str) -> bool:
    """Whether a document at `location` is in the local file system: a path, or a chain that ends at one."""
    *outer, last = _schemes(location)
    if last == "" and not outer:
        return True
    if last in ("zip", "tar", "libarchive") and not outer:  # `zip:///path/x.zip`
        return True
    return (last in _LOCAL or (last == "" and bool(location.rpartition("::")[2]))) and all(
        each in _WRAPPERS for each in outer
    )


def is_network(location: str) -> bool:
    """Whether reading `location` only reaches other machines, through every link of the chain."""
    *outer, last = _schemes(location)
    return last in _NETWORK and all(each in _WRAPPERS or each in _NETWORK for each in outer)


@dataclass(frozen=True)
class Document:
    """A document that names locations, and what the caller allows it.

    Parameters
    ----------
    uri
        Where the document is. Empty: the calling program made it (a dict, a pickle), and it counts as local.
    allow_local
        Whether it may name local files. None: only where it is a local file itself.
    expected
        Local paths that the caller named too. They are always allowed.
    """

    uri: str
    allow_local: bool | None = None
    expected: Collection[str] = ()

    @classmethod
    def of(cls, uri: str, allow_local: bool | None = None, expected: Collection[str] = ()) -> Document:
        """The same, after checking the option that the caller gave."""
        if allow_local is not None and not isinstance(allow_local, bool):
            raise InvalidArgumentError(f"allow_local must be None, True or False, got {allow_local!r}")
        return cls(uri, allow_local, expected)

    @property
    def may_name_local(self) -> bool:
        """Whether local files may be named."""
        return is_local(self.uri) if self.allow_local is None else self.allow_local

    def check(self, location: str, name: str | None = None) -> str:
        """Returns `location`, a resolved path or URL that the document names.

        Raises
        ------
        UnsupportedError
            The document may not name it. `name` is how the document spells it.
        """
        if self.may_name_local or is_network(location) or location in self.expected:
            return location
        schemes = _schemes(location)
        if schemes == _schemes(self.uri) and schemes[-1] not in ("", "reference") and not is_local(location):
            return location  # the same file system, such as memory://
        raise self.refusal(location if name is None else name, is_local(location))

    def refusal(self, name: str, local: bool) -> Error:
        what = "a file of this machine" if local else "which is not a location that is known to be remote"
        remedy = "open it with allow_local=True if it may name local files"
        text = f"the document '{self.uri}' names '{name}', {what}: {remedy}"
        return UnsupportedError(text)


CALLERS_OWN = Document("")
"""What the calling program made."""
