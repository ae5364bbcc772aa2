"""Read: lines with numbers, images as images, and a way on from every refusal."""

import base64
import json

import pytest

from teamwright.tools.files.read import Read, ReadInput
from tests.pictures import KINDS, PNG


async def read(ctx, path, **more):
    return await Read().run(ReadInput(file_path=str(path), **more), ctx)


@pytest.mark.promise("H2")
async def test_lines_come_numbered_and_the_reading_is_remembered(ctx, work):
    (work / "f").write_bytes(b"\xef\xbb\xbfone\r\n\ttwo\r\n\r\nlast")
    result = await read(ctx, "f")
    assert result.content == "     1\tone\n     2\t\ttwo\n     3\t\n     4\tlast"
    assert ctx.workplace.last_seen(work / "f") is not None


async def test_a_part_says_where_it_ends_and_how_to_go_on(ctx, work):
    (work / "f").write_text("".join(f"line {n}\n" for n in range(1, 5001)))
    whole = (await read(ctx, "f")).content
    assert "  2000\tline 2000\n[lines 1 to 2000 of 5000] Continue with offset 2001." in whole
    part = (await read(ctx, "f", offset=4999, limit=10)).content
    assert part == "  4999\tline 4999\n  5000\tline 5000\n[lines 4999 to 5000 of 5000]"
    assert (await read(ctx, "f", offset=5001)).is_error


@pytest.mark.promise("P6")
async def test_long_lines_and_long_answers_are_cut(ctx, work):
    (work / "long").write_text("x" * 10_000 + "\nshort\n")
    content = (await read(ctx, "long")).content
    assert "[… 8,000 characters more]\n     2\tshort" in content
    (work / "wide").write_text(("y" * 1_000 + "\n") * 1_000)
    content = (await read(ctx, "wide")).content
    assert len(content) < 61_000 and "of 1000] Continue with offset 60." in content


async def test_an_empty_file_a_directory_and_a_binary_file_are_said_to_be_that(ctx, work):
    (work / "empty").write_text("")
    (work / "bin").write_bytes(b"\x7fELF\0\0")
    assert "is empty" in (await read(ctx, "empty")).content
    assert "Glob" in (await read(ctx, ".")).content and (await read(ctx, ".")).is_error
    refused = await read(ctx, "bin")
    assert refused.is_error and "not a text file" in refused.content and ctx.workplace.last_seen(work / "bin") is None


@pytest.mark.parametrize(
    ("content", "kind"),
    [(content, kind) for kind, content in KINDS.items()],
)
async def test_images_come_as_image_blocks_whatever_they_are_called(ctx, work, content, kind):
    (work / "picture.txt").write_bytes(content)
    result = await read(ctx, "picture.txt")
    source = result.content[1]["source"]
    assert (source["media_type"], base64.b64decode(source["data"])) == (kind, content)


async def test_an_image_is_refused_where_the_model_has_no_eyes_and_when_it_is_too_large(ctx, work):
    (work / "p.png").write_bytes(PNG)
    (work / "big.png").write_bytes(PNG + b"\0" * 5 * 1024 * 1024)
    (work / "half.png").write_bytes(PNG[:40])
    assert "3,750,000 is the most" in (await read(ctx, "big.png")).content
    assert "half.png is broken" in (await read(ctx, "half.png")).content
    ctx.workplace.accepts_images = False
    refused = await read(ctx, "p.png")
    assert refused.is_error and "cannot see images" in refused.content


async def test_a_missing_file_is_answered_with_what_could_have_been_meant(ctx, work):
    (work / "src").mkdir()
    (work / "src" / "handler.py").write_text("")
    assert str(work / "src" / "handler.py") in (await read(ctx, "src/Handlers.py")).content
    assert f"Did you mean {work / 'src' / 'handler.py'}?" in (await read(ctx, "/src/handler.py")).content
    assert str(work) in (await read(ctx, "nothing/like/it.zig")).content


async def test_a_notebook_comes_as_cells_and_a_broken_one_as_text(ctx, work):
    outputs = [
        {"output_type": "error", "traceback": ["\x1b[31mValueError\x1b[0m", "line 2"]},
        {"output_type": "display_data", "data": {"image/png": "aGk=", "text/plain": ["<Figure>"]}},
        {"output_type": "stream", "text": "z" * 9_000},
    ]
    cells = [
        {"cell_type": "code", "source": "1/0", "outputs": outputs},
        {"cell_type": "markdown", "source": ["# a\n", "b"]},
    ]
    (work / "n.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 4}))
    content = (await read(ctx, "n.ipynb")).content
    assert '<cell 0 id="cell-0" type="code">\n1/0\n</cell>' in content and "# a\nb\n</cell>" in content
    assert "ValueError\nline 2" in content and "<Figure>\n[image/png]" in content and "7,000 characters more" in content
    (work / "broken.ipynb").write_text("{not json")
    assert (await read(ctx, "broken.ipynb")).content == "     1\t{not json"


async def test_a_large_file_is_read_too(ctx, work):
    (work / "big").write_text("line\n" * 300_000)
    result = await read(ctx, "big", offset=299_999)
    assert result.content.startswith("299999\tline\n300000\tline")
