"""Screens of a terminal as one SVG: a still picture of one screen, a film of several.

Reads rows with colour sequences, as `tmux capture-pane -e` prints them. The picture has the light or dark colours of
its viewer, loads nothing, and is still for a viewer that asks for less motion.
"""

import re
from html import escape
from typing import NamedTuple

from teamwright.ui.display_text import cell_width

CELL, LINE, PAD, SIZE = 8.4, 18, 14, 14
"""The width of a cell, the height of a line, the margin, and the size of the letters, in pixels."""

DARK = (
    "#4c566a #ff6b6b #7bd88f #fce566 #5aa9e6 #c792ea #5ad4e6 #d8dee9"
    " #69758c #ff8a8a #9be8a8 #fff08a #7fc1ff #dba6ff #8be9f5 #ffffff",
    "#d8dee9",
    "#1d2129",
)
LIGHT = (
    "#24292f #b3261e #116329 #7d4e00 #0550ae #8250df #0f6b74 #6e7781"
    " #57606a #a40e26 #1a7f37 #633c01 #0969da #6639ba #1b7c83 #8c959f",
    "#24292f",
    "#ffffff",
)
"""The sixteen colours, the text and the background."""

_SEQUENCE = re.compile(r"\x1b\[([0-9;]*)m")


class Look(NamedTuple):
    """The look of a text. A colour is a number below 256; -1 is that of the terminal."""

    color: int = -1
    ground: int = -1
    bold: bool = False
    dim: bool = False
    italic: bool = False
    line: bool = False
    reverse: bool = False


def parts_of(row: str) -> list[tuple[str, Look]]:
    """Return the texts of a row with their looks."""
    look, parts, at = Look(), [], 0
    for found in _SEQUENCE.finditer(row):
        parts.append((row[at : found.start()], look))
        look, at = _changed(look, [int(part or 0) for part in found[1].split(";")]), found.end()
    parts.append((row[at:], look))
    return [(text, one) for text, one in parts if text]


def _changed(look: Look, codes: list[int]) -> Look:
    simple = {1: "bold", 2: "dim", 3: "italic", 4: "line", 7: "reverse"}
    while codes:
        code = codes.pop(0)
        if code == 0:
            look = Look()
        elif code in simple:
            look = look._replace(**{simple[code]: True})
        elif code == 22:
            look = look._replace(bold=False, dim=False)
        elif code in {23, 24, 27}:
            look = look._replace(**{simple[code - 20]: False})
        elif code in {38, 48} and codes[:1] == [5]:
            look = look._replace(**{"color" if code == 38 else "ground": codes[1]})
            del codes[:2]
        elif (tens := code // 10 * 10) in {30, 40, 90, 100}:
            number = -1 if code % 10 > 7 else code % 10 + (8 if tens >= 90 else 0)
            look = look._replace(**{"color" if tens in {30, 90} else "ground": number})
    return look


def svg(frames: list[tuple[list[str], float]], columns: int, title: str) -> str:
    """Return a picture of the screens, each with the seconds for which a film shows it."""
    height = max(len(rows) for rows, _ in frames)
    wide, high = columns * CELL + 2 * PAD, height * LINE + 2 * PAD
    rows: dict[str, int] = {}
    screens = [
        "".join(
            f'<use href="#r{rows.setdefault(row.rstrip(), len(rows))}" y="{at * LINE}"/>'
            for at, row in enumerate(screen)
            if row.strip()
        )
        for screen, _ in frames
    ]
    drawn = "\n".join(f'<g id="r{number}">{_row(row)}</g>' for row, number in rows.items())
    films = "\n".join(f'<g class="s s{at}">{screen}</g>' for at, screen in enumerate(screens))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {high}" width="{wide:.0f}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{_style()}{_film([seconds for _, seconds in frames])}</style>\n"
        f'<defs>\n{drawn}\n</defs>\n<rect class="g" width="100%" height="100%" rx="8" stroke="#8886"/>\n'
        f'<g transform="translate({PAD} {PAD})">\n{films}\n</g>\n</svg>\n'
    )


def _row(row: str) -> str:
    out, column = [], 0
    for text, look in parts_of(row):
        color, ground = (look.ground, look.color) if look.reverse else (look.color, look.ground)
        width = cell_width(text)
        if look.reverse or ground >= 0:
            box = f'x="{column * CELL:.1f}" width="{width * CELL:.1f}" height="{LINE}"'
            out.append(f"<rect {box} {_fill(ground, 't')}/>")
        if words := text.strip():
            begin = column + len(text) - len(text.lstrip())
            kinds = " ".join(
                k for k, on in (("b", look.bold), ("d", look.dim), ("i", look.italic), ("u", look.line)) if on
            )
            place = f'x="{begin * CELL:.1f}" y="{LINE - 5}" textLength="{cell_width(words) * CELL:.1f}"'
            out.append(f"<text {place} {_fill(color, 'g' if look.reverse else 't', kinds)}>{escape(words)}</text>")
        column += width
    return "".join(out)


def _fill(color: int, usual: str, more: str = "") -> str:
    """Return the attributes of a colour: a class for those that the viewer's colours decide."""
    name = usual if color < 0 else f"c{color}" if color < 16 else ""
    names = f"{name} {more}".strip()
    return (f'class="{names}"' if names else "") + ("" if color < 16 else f' fill="{_hex(color)}"')


def _hex(color: int) -> str:
    """Return a colour of the cube or of the greys."""
    if color >= 232:
        return f"#{(color - 232) * 10 + 8:02x}" + f"{(color - 232) * 10 + 8:02x}" * 2
    steps = [(color - 16) // 36, (color - 16) // 6 % 6, (color - 16) % 6]
    return "#" + "".join(f"{step * 40 + 55 if step else 0:02x}" for step in steps)


def _style() -> str:
    def colors(theme: tuple[str, str, str]) -> str:
        all_of_them = "".join(f".c{at}{{fill:{color}}}" for at, color in enumerate(theme[0].split()))
        return f"{all_of_them}.t{{fill:{theme[1]}}}.g{{fill:{theme[2]}}}"

    text = f"text{{font:{SIZE}px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}}"
    kinds = ".b{font-weight:700}.d{opacity:.65}.i{font-style:italic}.u{text-decoration:underline}"
    return f"{text}{kinds}{colors(DARK)}@media (prefers-color-scheme:light){{{colors(LIGHT)}}}"


def _film(seconds: list[float]) -> str:
    """Return the rules that show one screen after another, again and again; none for one screen."""
    if len(seconds) == 1:
        return ""
    total, at, rules = sum(seconds), 0.0, []
    for number, time in enumerate(seconds):
        begin, end = at / total * 100, (at + time) / total * 100
        start = "0%{visibility:visible}" if not number else f"0%{{visibility:hidden}}{begin:.2f}%{{visibility:visible}}"
        stop = "" if number == len(seconds) - 1 else f"{end:.2f}%{{visibility:hidden}}"
        rules.append(
            f"@keyframes k{number}{{{start}{stop}}}.s{number}{{animation:k{number} {total:.1f}s step-end infinite}}"
        )
        at += time
    still = f".s.s{{animation:none}}.s.s{len(seconds) - 1}{{visibility:visible}}"
    return f".s{{visibility:hidden}}{''.join(rules)}@media (prefers-reduced-motion:reduce){{{still}}}"
