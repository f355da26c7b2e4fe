"""A reader of pprof's profiles that is protobuf's own: profile.proto's messages, given to it as descriptors."""

from __future__ import annotations

import gzip
from typing import Any

import pytest

INT64, UINT64, BOOL, STRING, MESSAGE = 3, 4, 8, 9, 11  # FieldDescriptorProto.Type
# Message -> (field, number, type, repeated), by profile.proto.
_MESSAGES: dict[str, list[tuple[str, int, int | str, bool]]] = {
    "ValueType": [("type", 1, INT64, False), ("unit", 2, INT64, False)],
    "Label": [("key", 1, INT64, False), ("str", 2, INT64, False), ("num", 3, INT64, False),
              ("num_unit", 4, INT64, False)],
    "Sample": [("location_id", 1, UINT64, True), ("value", 2, INT64, True), ("label", 3, "Label", True)],
    "Mapping": [("id", 1, UINT64, False), ("memory_start", 2, UINT64, False), ("memory_limit", 3, UINT64, False),
                ("file_offset", 4, UINT64, False), ("filename", 5, INT64, False), ("build_id", 6, INT64, False),
                ("has_functions", 7, BOOL, False), ("has_filenames", 8, BOOL, False),
                ("has_line_numbers", 9, BOOL, False), ("has_inline_frames", 10, BOOL, False)],
    "Line": [("function_id", 1, UINT64, False), ("line", 2, INT64, False)],
    "Location": [("id", 1, UINT64, False), ("mapping_id", 2, UINT64, False), ("address", 3, UINT64, False),
                 ("line", 4, "Line", True), ("is_folded", 5, BOOL, False)],
    "Function": [("id", 1, UINT64, False), ("name", 2, INT64, False), ("system_name", 3, INT64, False),
                 ("filename", 4, INT64, False), ("start_line", 5, INT64, False)],
    "Profile": [("sample_type", 1, "ValueType", True), ("sample", 2, "Sample", True), ("mapping", 3, "Mapping", True),
                ("location", 4, "Location", True), ("function", 5, "Function", True), ("string_table", 6, STRING, True),
                ("drop_frames", 7, INT64, False), ("keep_frames", 8, INT64, False), ("time_nanos", 9, INT64, False),
                ("duration_nanos", 10, INT64, False), ("period_type", 11, "ValueType", False),
                ("period", 12, INT64, False), ("comment", 13, INT64, True),
                ("default_sample_type", 14, INT64, False)]}


class ReadProfile:
    """A profile with its texts and references resolved, after all that profile.proto demands was checked."""

    def __init__(self, data: bytes) -> None:
        found = _message_class()()
        assert found.ParseFromString(gzip.decompress(data)) and not _unknown_fields(found)
        texts = list(found.string_table)
        assert texts[0] == "" and len(set(texts)) == len(texts)
        functions = {each.id: texts[each.name] for each in found.function}
        mappings = {each.id: texts[each.filename] for each in found.mapping}
        places = {each.id: (functions[each.line[0].function_id], mappings[each.mapping_id]) for each in found.location}
        assert 0 not in functions | mappings | places and len(functions) == len(found.function)
        self.types = [(texts[each.type], texts[each.unit]) for each in found.sample_type]
        assert all(len(sample.value) == len(self.types) for sample in found.sample)
        # (labels, functions with their mappings, outermost first) -> the values
        self.samples = {(tuple((texts[label.key], texts[label.str]) for label in sample.label),
                         tuple(places[each] for each in reversed(sample.location_id))): list(sample.value)
                        for sample in found.sample}
        assert len(self.samples) == len(found.sample)
        self.comments = [texts[each] for each in found.comment]
        self.time, self.duration, self.period = found.time_nanos, found.duration_nanos, found.period
        self.period_type = (texts[found.period_type.type], texts[found.period_type.unit])


def _unknown_fields(message: Any) -> bool:
    """Whether a message, or one in it, has fields that no descriptor knows."""
    from google.protobuf.unknown_fields import UnknownFieldSet
    inner = [each for field, value in message.ListFields() if field.message_type is not None
             for each in (value if hasattr(value, "__len__") else [value])]
    return len(UnknownFieldSet(message)) > 0 or any(map(_unknown_fields, inner))


def _message_class() -> Any:
    reason = "protobuf's Python package is not installed"
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason=reason)
    from google.protobuf import descriptor_pool, message_factory
    file = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, repeated in fields:
            added = message.field.add(name=field, number=number, label=3 if repeated else 1,
                                      type=MESSAGE if isinstance(kind, str) else kind)
            if isinstance(kind, str):
                added.type_name = f".perftools.profiles.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))
