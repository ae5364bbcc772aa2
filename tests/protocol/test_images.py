"""Images by their bytes: what a service would refuse is not shown to a model, for it would be sent again each time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from teamwright.protocol.messages import MAX_IMAGE_BYTES, image_problem, image_type
from tests.pictures import GIF, JPEG, KINDS, PNG, WEBP


@pytest.mark.promise("P7", "H7")
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_image_is_known_by_its_bytes_and_one_that_is_cut_off_is_not_shown(kind):
    whole = KINDS[kind]
    assert (image_type(whole), image_problem(whole)) == (kind, "")
    assert "is broken" in image_problem(whole[: len(whole) // 2])


@pytest.mark.promise("P7", "H7")
@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"\x7fELF", "is no png"),
        (b"", "is no png"),
        (PNG + b"\0" * MAX_IMAGE_BYTES, "is the most"),
        (PNG.replace(b"\0\0\0\x01\0\0\0\x01", b"\0\0\x4e\x20\0\0\0\x01", 1), "20,000 × 1 pixels"),
        (GIF[:6] + b"\0\0" + GIF[8:], "0 × 1 pixels"),
        (JPEG.replace(b"\x08\0\x01\0\x01", b"\x08\xff\xff\0\x01"), "1 × 65,535 pixels"),
        (WEBP.replace(b"VP8 ", b"VP9 "), "is broken"),
    ],
)
def test_what_no_service_takes_is_said(raw, why):
    assert why in image_problem(raw)


@pytest.mark.promise("P7")
@given(st.sampled_from(list(KINDS.values())), st.binary(max_size=40), st.integers(0, 40))
def test_whatever_the_bytes_are_looking_at_them_ends_and_never_fails(start, rest, at):
    assert isinstance(image_problem(start[:at] + rest), str)
