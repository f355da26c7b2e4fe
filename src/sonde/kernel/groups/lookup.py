"""Containers, pods and services by the id of a task's control group."""

from __future__ import annotations

from ...base.memory_budget import Cache
from ...base.record import Value
from ..procfs import Cgroups
from .cgroup_paths import (
    ID,
    IS_ID,
    SHORT_ID,
    Membership,
    folders_of_id,
    folders_of_name,
    folders_of_pod,
    folders_of_service,
    read_cgroup_path,
)
from .container_files import ContainerDescription, ContainerFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_CACHE_BYTES = 2 << 20
_NOTHING = ContainerDescription()


class GroupIdentity(Value):
    """What is known about a control group: what its path says, and what the container's runtime says (None:
    nothing)."""

    path: str
    belongs: Membership
    described: ContainerDescription | None


class Groups:
    """Names of control groups. They are looked up below /sys/fs/cgroup on demand; :meth:`learn` is for those that will
    be gone by then."""

    def __init__(self, cgroups: Cgroups | None = None, files: ContainerFiles | None = None) -> None:
        self._cgroups = cgroups or Cgroups()
        self._files = files or ContainerFiles()
        self._identities: Cache[int, GroupIdentity] = Cache(_CACHE_BYTES)
        self.catch_up: Callable[[], object] = int  # is called before an unknown group is looked for

    def learn(self, group: int, path: str) -> None:
        """Note that a group was made, with this path: what its runtime says about it is read now."""
        self._cgroups.learn(group, path)
        self.identity_of(group)

    def name_of(self, kind: str, group: int) -> str:
        """The name of the container, pod or service; "" outside of any, and ``cgroup ID`` where the group's path could
        not be seen. A container without a name goes by 12 digits of its id, a pod by its uid."""
        identity = self.identity_of(group)
        if identity is None:
            return f"cgroup {group}"
        belongs, description = identity.belongs, identity.described or _NOTHING
        if kind == "service":
            return belongs.service
        if kind == "pod":
            return description.pod or self._files.pods.get(belongs.pod) or belongs.pod
        return belongs.name or description.name or belongs.container[:SHORT_ID]

    def identity_of(self, group: int) -> GroupIdentity | None:
        """What is known about a group now; None if it was never seen."""
        known = self._identities.get(group)
        if known is None:
            path = self._path_of(group)
            if path is None:
                return None
            known = GroupIdentity(path, read_cgroup_path(path), None)
            self._identities.put(group, known, 700 + 2 * len(path))
        if known.described is None and known.belongs.container:
            description = self._files.describe(known.belongs.container)
            if description is not None:
                known = GroupIdentity(known.path, known.belongs, description)
                self._identities.put(group, known, 1000 + 2 * len(known.path))
        return known

    def _path_of(self, group: int) -> str | None:
        self.catch_up()
        paths = self._cgroups.cgroup_paths(group)
        return paths[0][1] if paths else None

    # of filters

    def is_in(self, kind: str, text: str, group: int) -> bool | None:
        """Whether a group is part of the container, pod or service of that name, with "" of any at all; None while its
        runtime has not named it.

        A container may be named by its id, or 12 digits of it or more, and a pod without its namespace, or by its uid.
        """
        identity = self.identity_of(group)
        if identity is None:
            return None
        belongs = identity.belongs
        if kind == "service":
            return belongs.service == text if text else bool(belongs.service)
        return self._is_pod(text, belongs, identity.described) if kind == "pod" else \
            _is_container(text, belongs, identity.described)

    def _is_pod(self, text: str, belongs: Membership, description: ContainerDescription | None) -> bool | None:
        if not belongs.pod or not text or text == belongs.pod:
            return bool(belongs.pod)
        name = description.pod if description is not None else self._files.pods.get(belongs.pod)
        return None if name is None else text in (name, name.partition("/")[2])

    def folders_of(self, kind: str, text: str) -> list[str]:
        """The possible names of the folder of what has that name, by all that is known now."""
        if not text:
            return []
        if kind == "service":
            return folders_of_service(text)
        described = {each: self._files.describe(each) or _NOTHING for each in self._files.ids()}
        if kind == "pod":
            uids = {text, *[uid for uid, pod in self._files.pods.items() if text in (pod, pod.partition("/")[2])]}
            return [folder for uid in sorted(uids) for folder in folders_of_pod(uid)]
        ids = [each for each, description in described.items()
               if description.name == text or len(text) >= SHORT_ID and each.startswith(text)]
        folders = folders_of_name(text) + [folder for each in [*ids, *[text] * bool(IS_ID.match(text))]
                                           for folder in folders_of_id(each)]
        return [folder for folder in dict.fromkeys(folders) if "/" not in folder]

    def all_groups(self) -> list[int]:
        """The groups that exist now."""
        return self._cgroups.all_ids()


def _is_container(text: str, belongs: Membership, description: ContainerDescription | None) -> bool | None:
    if not belongs.container:
        return belongs.name == text if text else bool(belongs.name)
    if not text or SHORT_ID <= len(text) <= ID and belongs.container.startswith(text):
        return True
    return None if description is None else description.name == text
