"""The pictures of the documentation: complete, well-formed, without anything of the machine that made them."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.ui.terminal_svg import Look, parts_of, svg

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
NAMES = {"team", "question", "review", "plain", "demo"}


def test_rows_with_colours_become_texts_with_looks():
    assert parts_of("a\x1b[1;32mb\x1b[0m\x1b[7;31mc\x1b[27;39md\x1b[38;5;208me\x1b[m f") == [
        ("a", Look()),
        ("b", Look(color=2, bold=True)),
        ("c", Look(color=1, reverse=True)),
        ("d", Look()),
        ("e", Look(color=208)),
        (" f", Look()),
    ]


def test_a_film_draws_each_row_once_and_shows_each_screen_in_its_time():
    film = svg([(["one", "two"], 1.0), (["two", "<three> \x1b[7mx"], 3.0)], 20, "A & B")
    root = ElementTree.fromstring(film)
    texts = ["".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["one", "two", "<three>", "x"]
    assert "@keyframes k0{0%{visibility:visible}25.00%{visibility:hidden}}" in film
    assert "@keyframes k1{0%{visibility:hidden}25.00%{visibility:visible}}" in film
    assert "prefers-color-scheme:light" in film and "prefers-reduced-motion" in film


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_picture_loads_nothing_and_names_no_place_of_the_machine(name: str):
    text = (PICTURES / f"{name}.svg").read_text()
    root = ElementTree.fromstring(text)
    words = " ".join("".join(one.itertext()) for one in root.iter("{http://www.w3.org/2000/svg}text"))
    assert not re.search(r"/(tmp|home|root|work|dev/shm)/", words), words
    assert not re.search(r"url\(|@import|<script|<image|href=\"(?!#)", text)
    assert len(text) < 150_000 and "prefers-color-scheme:light" in text


def test_there_is_no_other_picture():
    assert {path.stem for path in PICTURES.glob("*.svg")} == NAMES
