"""What container runtimes record about their containers in their own files: names, and Kubernetes pods.

No daemon is asked. A file counts only if nobody but root (or the caller) can write to it, and its size is bounded::

    docker        /var/lib/docker/containers/ID/config.v2.json
    containerd    /run/containerd/io.containerd.runtime.v2.task/NAMESPACE/ID/config.json, and k3s's copy
    podman, CRI-O /var/lib/containers/storage/*-containers/containers.json, and their files below /run
"""

from __future__ import annotations

import os
import stat
import time

from ...base.memory_budget import Cache
from ...base.record import Value
from ...base.trusted_files import is_private, open_guarded
from .cgroup_paths import IS_ID

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...base.json_checks import Json, JsonObject

LARGEST = 4 << 20     # bytes of a file
MOST = 4096           # containers of one runtime that are looked through for a name
LONGEST = 253         # characters of a plausible name, as in DNS
AGAIN = 0.2           # s until something that was missing is looked for again
_CACHE_BYTES = 2 << 20       # bytes of what is remembered
_DOCKER = "var/lib/docker/containers"
_TASKS = ("run/containerd/io.containerd.runtime.v2.task", "run/k3s/containerd/io.containerd.runtime.v2.task")
_STORAGE = ("var/lib/containers/storage", "run/containers/storage")
_KUBELET = "io.kubernetes.pod."
_LISTS = ("containers.json", "volatile-containers.json")


class ContainerDescription(Value):
    """A container as its runtime describes it: its ``name``, and in Kubernetes its ``pod``, as ``namespace/name``, and
    the pod's ``uid``. "" is not known."""

    name: str = ""
    pod: str = ""
    uid: str = ""


class ContainerFiles:
    """Containers by id, read on demand; ``root`` is the folder that contains the runtimes' folders."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._known: Cache[str, ContainerDescription] = Cache(_CACHE_BYTES)
        self._lists: dict[str, tuple[tuple[int, int, int] | None, dict[str, JsonObject]]] = {}
        self._missing: dict[str, float] = {}  # ids that had no file, and when
        self.pods: dict[str, str] = {}        # uid -> namespace/name, as far as containers gave it

    def describe(self, container: str) -> ContainerDescription | None:
        """What is known about the container with an id; None if nothing is."""
        description = self._known.get(container)
        if description is None and time.monotonic() - self._missing.get(container, -AGAIN) >= AGAIN:
            description = self._read_docker(container) or self._read_task(container) or self._read_storage(container)
            if description is None:
                self._note_missing(container)
            else:
                self._keep(container, description)
        return description

    def ids(self) -> list[str]:
        """The containers that have files."""
        containers = _folders(self._path(_DOCKER)) + [container for entries in self._stored() for container in entries]
        for tasks in _TASKS:
            for space in _folders(self._path(tasks)):
                containers += _folders(self._path(tasks, space))
        return [container for container in dict.fromkeys(containers) if IS_ID.match(container)]

    def _keep(self, container: str, description: ContainerDescription) -> None:
        self._missing.pop(container, None)
        self._known.put(container, description, 400 + sum(map(len, description.values())))
        if description.uid and description.pod and (description.uid in self.pods or len(self.pods) < MOST):
            self.pods[description.uid] = description.pod

    def _note_missing(self, container: str) -> None:
        if len(self._missing) >= MOST:
            self._missing.clear()
        self._missing[container] = time.monotonic()

    def _path(self, *parts: str) -> str:
        return os.path.join(self._root, *parts)

    def _read_docker(self, container: str) -> ContainerDescription | None:
        state = _read_object(self._path(_DOCKER, container, "config.v2.json"))
        if state is None:
            return None
        labels = _dict_in(_dict_in(state, "Config"), "Labels")
        name = _text_in(labels, "io.kubernetes.container.name") or _text_in(state, "Name").removeprefix("/")
        return _make_description(name, labels, _KUBELET)

    def _read_task(self, container: str) -> ContainerDescription | None:
        for tasks in _TASKS:
            for space in _folders(self._path(tasks)):
                bundle = _read_object(self._path(tasks, space, container, "config.json"))
                if bundle is not None:
                    return _described_by_cri(_dict_in(bundle, "annotations"))
        return None

    def _read_storage(self, container: str) -> ContainerDescription | None:
        entry = next((entries[container] for entries in self._stored() if container in entries), None)
        if entry is None:
            return None
        for folder in self._storage_folders():
            bundle = _read_object(os.path.join(folder, container, "userdata", "config.json"))
            notes = _dict_in(bundle, "annotations")
            if _text_in(notes, "io.kubernetes.container.name"):
                return _make_description(_text_in(notes, "io.kubernetes.container.name"), notes, _KUBELET)
        names = entry.get("names")
        return ContainerDescription(_bounded(names[0]) if isinstance(names, list) and names else "")

    def _storage_folders(self) -> list[str]:
        return [self._path(storage, kind) for storage in _STORAGE for kind in _folders(self._path(storage))
                if kind.endswith("-containers")]

    def _stored(self) -> Iterator[dict[str, JsonObject]]:
        """The contents of podman's and CRI-O's lists, by id; a list that has not changed is not read again."""
        for path in [os.path.join(folder, name) for folder in self._storage_folders() for name in _LISTS]:
            try:
                now = os.stat(path)
            except OSError:
                continue
            stamp, entries = self._lists.get(path, (None, {}))
            if stamp != (now.st_ino, now.st_mtime_ns, now.st_size):
                listed = _read_json(path)
                entries = {_text_in(entry, "id"): entry for entry in (listed if isinstance(listed, list) else [])[:MOST]
                           if isinstance(entry, dict)}
                self._lists[path] = (now.st_ino, now.st_mtime_ns, now.st_size), entries
            yield entries


def _described_by_cri(notes: JsonObject) -> ContainerDescription:
    """By containerd's annotations; a pod's pause container has no name of its own."""
    alone = _text_in(notes, "io.kubernetes.cri.container-type") == "sandbox"
    name = "POD" if alone else _text_in(notes, "io.kubernetes.cri.container-name") or _text_in(notes, "nerdctl/name")
    return _make_description(name, notes, "io.kubernetes.cri.sandbox-")


def _make_description(name: str, texts: JsonObject, pod: str) -> ContainerDescription:
    """``pod`` is the prefix of the texts that describe the pod."""
    of, called = _text_in(texts, f"{pod}namespace"), _text_in(texts, f"{pod}name")
    full = f"{of}/{called}" if of and called else called
    return ContainerDescription(_bounded(name), full, _text_in(texts, f"{pod}uid"))


def _bounded(text: object) -> str:
    return text if isinstance(text, str) and len(text) <= LONGEST else ""


def _text_in(texts: JsonObject, name: str) -> str:
    return _bounded(texts.get(name))


def _dict_in(state: JsonObject | None, name: str) -> JsonObject:
    value = state.get(name) if state is not None else None
    return value if isinstance(value, dict) else {}


def _folders(path: str) -> list[str]:
    """The names in a folder; none if it cannot be read."""
    try:
        with os.scandir(path) as entries:
            return [entry.name for _, entry in zip(range(MOST), entries)]
    except OSError:
        return []


def _read_object(path: str) -> JsonObject | None:
    """The JSON object in a trusted file; None for anything else."""
    value = _read_json(path)
    return value if isinstance(value, dict) else None


def _read_json(path: str) -> Json:
    """The contents of a trusted file; None if it cannot be read."""
    import json
    try:
        with open(open_guarded(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not is_private(status) or status.st_size > LARGEST:
                return None
            value: Json = json.loads(file.read(LARGEST + 1))
            return value
    except (OSError, ValueError, RecursionError):
        return None
