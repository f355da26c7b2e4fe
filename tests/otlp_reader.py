"""A reader of OTLP profiles by the messages of OpenTelemetry's own package (opentelemetry-proto)."""

from __future__ import annotations

from typing import Any

import pytest

from perfetto_reader import has_unknown_fields

REASON = "opentelemetry-proto with profiles is not installed"


class ReadProfiles:
    """Profiles with all numbers resolved, after what the protocol's comments demand was checked: number 0 of each table
    is empty, no row comes twice, nothing refers to what is not there."""

    def __init__(self, data: bytes, message: str = "ProfilesData") -> None:
        protos: Any = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2", reason=REASON)
        if message != "ProfilesData":
            protos = pytest.importorskip(
                "opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2", reason=REASON)
        found = getattr(protos, message)()
        assert found.ParseFromString(data) == len(data) and not has_unknown_fields(found)
        tables = found.dictionary
        texts = list(tables.string_table)
        for table in (tables.mapping_table, tables.location_table, tables.function_table, tables.link_table,
                      tables.attribute_table, tables.stack_table):
            assert table[0].ByteSize() == 0
            rows = [each.SerializeToString() for each in table]
            assert len(set(rows)) == len(rows)
        assert texts[0] == "" and len(set(texts)) == len(texts)
        functions = [texts[each.name_strindex] for each in tables.function_table]
        mappings = [texts[each.filename_strindex] for each in tables.mapping_table]
        places = [(functions[each.lines[0].function_index], mappings[each.mapping_index]) if each.lines else ("", "")
                  for each in tables.location_table]
        stacks = [tuple(places[each] for each in reversed(stack.location_indices)) for stack in tables.stack_table]
        attributes = [(texts[each.key_strindex], each.value.string_value) for each in tables.attribute_table]
        resource, = found.resource_profiles
        scope, = resource.scope_profiles
        self.resource = {each.key: each.value.string_value for each in resource.resource.attributes}
        self.scope = scope.scope.name
        self.types: list[tuple[str, str]] = []
        self.samples: list[dict[tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]], int]] = []
        self.times: list[tuple[int, int]] = []
        self.lost: list[list[str]] = []
        for profile in scope.profiles:
            assert len(profile.profile_id) == 16 and any(profile.profile_id)
            self.types.append((texts[profile.sample_type.type_strindex], texts[profile.sample_type.unit_strindex]))
            self.times.append((profile.time_unix_nano, profile.duration_nano))
            self.lost.append([attributes[each][1] for each in profile.attribute_indices])
            rows = {}
            for sample in profile.samples:
                value, = sample.values
                key = (tuple(attributes[each] for each in sample.attribute_indices), stacks[sample.stack_index])
                assert key not in rows and sample.link_index == 0
                rows[key] = value
            self.samples.append(rows)
