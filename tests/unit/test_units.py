"""Quantities: what users may write, what it means, and that it survives a round trip."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lab.units import (
    BitRate,
    ByteSize,
    format_bits_per_s,
    format_bytes,
    parse_bits_per_s,
    parse_bytes,
    parse_seconds,
)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1B", 1),
        ("4KiB", 4096),
        ("768MiB", 805306368),
        ("1.5GiB", 1610612736),
        ("2 TiB", 2199023255552),
        ("0.000000001TiB", None),
        ("8388607TiB", 8388607 * 2**40),
    ],
)
def test_bytes(text: str, count: int | None) -> None:
    if count is None:
        with pytest.raises(ValueError, match="not a positive whole number of bytes"):
            parse_bytes(text)
    else:
        assert parse_bytes(text) == count


def test_large_sizes_are_exact() -> None:
    assert parse_bytes("9007199254740993B") == 2**53 + 1


@pytest.mark.parametrize(
    ("text", "bits_per_s"),
    [("1Gbit", 10**9), ("2.5Gbit", 2_500_000_000), ("100 Mbit", 10**8), ("8bit", 8)],
)
def test_rates(text: str, bits_per_s: int) -> None:
    assert parse_bits_per_s(text) == bits_per_s


@pytest.mark.parametrize(
    ("text", "seconds"), [("250ms", 0.25), ("1.5min", 90.0), ("24h", 86400.0), ("30s", 30.0)]
)
def test_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "value", ["", "GiB", "-1GiB", "1e3GiB", "0x10B", "1,5GiB", None, True, 3.5]
)
def test_what_is_no_quantity_names_the_units(value: object) -> None:
    with pytest.raises(ValueError, match="B, KiB, MiB, GiB, TiB"):
        parse_bytes(value)


@pytest.mark.parametrize("digits", ["1" * 19, "9" * 5000, "٣"])
def test_numbers_are_bounded_and_ascii(digits: str) -> None:
    with pytest.raises(ValueError, match="needs a number with a unit"):
        parse_bytes(f"{digits}B")


@pytest.mark.parametrize(
    ("text", "meant"), [("1GB", "1GiB"), ("1G", "1GiB"), ("512mb", "512MiB"), ("4kib", "4KiB")]
)
def test_habitual_byte_units_are_explained(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {meant}"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "meant"), [("1Gbps", "1Gbit"), ("1Gb/s", "1Gbit"), ("10G", "10Gbit"), ("1gbit", "1G")]
)
def test_habitual_rate_units_are_explained(text: str, meant: str) -> None:
    with pytest.raises(ValueError, match=f"did you mean {meant}"):
        parse_bits_per_s(text)


def test_a_number_without_a_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a unit: B, KiB"):
        parse_bytes(1073741824)


def test_zero_bytes_and_less_than_a_byte_per_second_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        parse_bytes("0GiB")
    with pytest.raises(ValueError, match="below one byte per second"):
        parse_bits_per_s("7bit")


def test_more_than_a_file_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="more than a file can hold"):
        parse_bytes("8388608TiB")


def test_format_takes_the_largest_unit_that_divides() -> None:
    assert [format_bytes(n) for n in (1, 1024, 1536, 2**30)] == ["1B", "1KiB", "1536B", "1GiB"]
    assert [format_bits_per_s(n) for n in (8, 1000, 2_500_000_000)] == ["8bit", "1Kbit", "2500Mbit"]


@given(st.integers(min_value=1, max_value=10**18 - 1))
def test_bytes_round_trip(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == count


@given(st.integers(min_value=8, max_value=10**18 - 1))
def test_rates_round_trip(bits_per_s: int) -> None:
    assert parse_bits_per_s(format_bits_per_s(bits_per_s)) == bits_per_s


@given(
    st.integers(min_value=1, max_value=10**6), st.sampled_from(["B", "KiB", "MiB", "GiB", "TiB"])
)
def test_json_of_a_model_loads_again(number: int, unit: str) -> None:
    size = TypeAdapter(ByteSize)
    value = size.validate_python(f"{number}{unit}")
    assert size.validate_json(size.dump_json(value)) == value
    assert size.dump_python(value) == value


def test_rates_in_json_are_text() -> None:
    assert TypeAdapter(BitRate).dump_json(10**9) == b'"1Gbit"'


@given(st.text() | st.integers() | st.floats() | st.none() | st.booleans())
def test_any_value_is_a_quantity_or_a_value_error(value: object) -> None:
    for parse in (parse_bytes, parse_bits_per_s, parse_seconds):
        try:
            assert parse(value) >= 0
        except ValueError as error:
            assert str(error)
