"""Pictures of documents: what is drawn where, and that nothing readable is hidden."""

from dataclasses import dataclass, field

import numpy as np
import pypdfium2 as pdfium
import pytest
from PIL import Image
from tests.pdfs import Text, make_letter, make_pdf

from broadsheet.documents import Document, InputError, read_pdf
from broadsheet.visualization import PALETTE, annotate_pages, render_pages, save_pages


@dataclass
class Entity:
    label: str
    word_ids: list[int]
    score: float | None = 0.9
    words: list[str] = field(default_factory=list)


def entity_of(document, label, *words, score=0.9):
    return Entity(label, [document.words.index(word) for word in words], score)


def rgb(color):
    return tuple(int(color[place : place + 2], 16) for place in (1, 3, 5))


def has_color(picture, box, color):
    """Whether the colour occurs within the box (in pixels)."""
    pixels = np.asarray(picture.crop(tuple(round(edge) for edge in box)))
    return bool((pixels == rgb(color)).all(axis=-1).any())


def scaled(document, index, picture_width):
    scale = picture_width / document.page_sizes[document.page_ids[index]][0]
    return [edge * scale for edge in document.boxes[index]]


def hidden_words(document, picture, page=0):
    """The words whose printed pixels are not dark any more, compared with the page without annotations."""
    plain = annotate_pages(document, [], pages=[page])[0]
    before, after = (np.asarray(image.convert("L")).astype(int) for image in (plain, picture))
    hidden = []
    for index in document.word_ids_of_page(page):
        x0, y0, x1, y1 = (round(edge) for edge in scaled(document, index, plain.width))
        ink = before[y0:y1, x0:x1] < 110
        if (after[y0:y1, x0:x1][ink] < 140).mean() < 0.7:
            hidden.append(document.words[index])
    return hidden


@pytest.fixture
def letter(tmp_path):
    return read_pdf(make_letter(tmp_path / "letter.pdf", num_pages=3))


def test_one_picture_a_page_with_what_is_on_it(letter):
    entities = [entity_of(letter, "number", "2024-117"), entity_of(letter, "amount", "1,250.00", "EUR,")]
    pictures = annotate_pages(letter, entities)
    assert [picture.info for picture in pictures] == [
        {"page": 0, "num_pages": 3, "num_entities": 2},
        {"page": 1, "num_pages": 3, "num_entities": 0},
        {"page": 2, "num_pages": 3, "num_entities": 0},
    ]
    width = pictures[0].width
    for entity, color in zip(entities, (PALETTE[1], PALETTE[0]), strict=True):  # colours by the labels' order
        x0, y0, x1, y1 = scaled(letter, entity.word_ids[0], width)
        assert has_color(pictures[0], (x0 - 4, y0 - 4, x0 + 2, y1 + 4), color)
        assert not has_color(pictures[1], (0, 0, width, 1500), color)
    assert [picture.info["page"] for picture in annotate_pages(letter, entities, pages=[2])] == [2]


def test_tags_hide_no_words(letter):
    entities = [Entity("a_rather_long_label", [index]) for index in letter.word_ids_of_page(0)[:12:2]]
    picture = annotate_pages(letter, entities, pages=[0])[0]
    assert hidden_words(letter, picture) == []


def test_tags_of_a_dense_page_move_into_the_margin(tmp_path):
    lines = [Text("every line of this page is full of words from edge to edge, to leave no room at all " * 2, 0, y, 8)
             for y in range(10, 792, 8)]  # fmt: skip
    document = read_pdf(make_pdf(tmp_path / "dense.pdf", [lines]))
    entities = [Entity("clause", [index, index + 1]) for index in range(100, 2000, 100)]
    picture = annotate_pages(document, entities)[0]
    plain = annotate_pages(document, [])[0]
    assert picture.width > plain.width
    assert hidden_words(document, picture) == []
    assert has_color(picture, (plain.width, 0, picture.width, 1600), PALETTE[0])


def test_lines_of_one_entity_share_a_box(letter):
    """Two words in a line make one box, with no edge between them; a word on the next line gets its own."""
    words = [letter.words.index(word) for word in ("the", "invoice", "2024-117", "over", "1,250.00")]
    picture = annotate_pages(letter, [Entity("sentence", words, None)], pages=[0])[0]
    color, width = PALETTE[0], picture.width
    left, right = scaled(letter, words[0], width), scaled(letter, words[1], width)
    middle = (left[1] + left[3]) / 2
    assert not has_color(picture, (left[2] + 1, middle - 3, right[0] - 1, middle + 3), color)
    below = scaled(letter, words[3], width)
    assert has_color(picture, (below[0] - 4, below[1] - 2, below[0], below[3] + 2), color)


def test_entity_over_two_pages_is_drawn_on_both(letter):
    last, first = letter.word_ids_of_page(0)[-1], letter.word_ids_of_page(1)[0]
    pictures = annotate_pages(letter, [Entity("clause", [last, first])])
    for picture, index in zip(pictures, (last, first), strict=False):
        x0, y0, x1, y1 = scaled(letter, index, picture.width)
        assert has_color(picture, (x0 - 4, y0 - 4, x1 + 4, y1 + 4), PALETTE[0])
    assert [picture.info["num_entities"] for picture in pictures] == [1, 1, 0]


def test_colors_follow_the_given_labels(letter):
    entity = entity_of(letter, "number", "2024-117")
    picture = annotate_pages(letter, [entity], pages=[0], labels=["amount", "date", "number"])[0]
    x0, y0, x1, y1 = scaled(letter, entity.word_ids[0], picture.width)
    assert has_color(picture, (x0 - 4, y0 - 4, x1 + 4, y1 + 4), PALETTE[2])


@pytest.mark.parametrize("rotate", [0, 90])
def test_boxes_lie_on_the_page_as_it_is_displayed(tmp_path, rotate):
    path = make_pdf(
        tmp_path / "a.pdf", [[Text("Total 12.00", 100, 300, 20)]], rotate=rotate, crop_box=(50, 60, 500, 700)
    )
    document = read_pdf(path)
    picture = annotate_pages(document, [Entity("total", [1])])[0]
    pdf = pdfium.PdfDocument(path)
    assert picture.width == pytest.approx(2.5 * pdf[0].get_width(), abs=1)
    pdf.close()
    x0, y0, x1, y1 = scaled(document, 1, picture.width)
    ink = np.asarray(picture.convert("L").crop((round(x0), round(y0), round(x1), round(y1)))) < 100
    assert ink.sum() > 100


def test_document_without_source_shows_its_words(letter, tmp_path, caplog):
    entity = entity_of(letter, "number", "2024-117")
    letter.source = None
    picture = annotate_pages(letter, [entity], pages=[0])[0]
    x0, y0, x1, y1 = scaled(letter, entity.word_ids[0], picture.width)
    dark = np.asarray(picture.convert("L").crop((round(x0), round(y0), round(x1), round(y1)))) < 100
    assert dark.sum() > 100
    letter.source = str(tmp_path / "moved.pdf")
    again = annotate_pages(letter, [entity], pages=[0])[0]
    assert "moved.pdf is not there any more" in caplog.text
    assert np.asarray(again)[:1500].shape[0] == 1500
    assert (np.asarray(again)[:1500] == np.asarray(picture)[:1500]).all()


def test_picture_as_source(tmp_path):
    Image.new("RGB", (300, 200), "#ddeeff").save(tmp_path / "scan.png")
    document = Document(
        ["Total"], [[30.0, 40.0, 90.0, 60.0]], [0], [(300.0, 200.0)], source=str(tmp_path / "scan.png")
    )
    picture = annotate_pages(document, [Entity("total", [0])])[0]
    assert picture.width == 1700
    assert has_color(picture, (5, 5, 20, 20), "#ddeeff")
    assert has_color(picture, (160, 220, 180, 345), PALETTE[0])


def test_turned_picture_is_shown_as_it_was_read(tmp_path):
    image = Image.new("RGB", (200, 300), "white")
    image.paste("#00ff00", (0, 0, 200, 60))
    exif = image.getexif()
    exif[0x0112] = 6  # to be turned by a quarter: what is on top as stored stands at the right
    image.save(tmp_path / "turned.png", exif=exif)
    document = Document(["x"], [[10, 10, 20, 20]], [0], [(300.0, 200.0)], source=str(tmp_path / "turned.png"))
    (picture,) = render_pages(document)
    assert picture.size == (1700, 1133)
    assert has_color(picture, (1400, 100, 1690, 1000), "#00ff00")
    assert not has_color(picture, (10, 100, 1300, 1000), "#00ff00")


def test_bad_input(letter):
    with pytest.raises(InputError, match="no page 3 in a document of 3 pages"):
        annotate_pages(letter, [], pages=[3])
    with pytest.raises(InputError, match=r"'number' has the word 999, but the document has \d+ words"):
        annotate_pages(letter, [Entity("number", [999])])


def test_saving_one_file(letter, tmp_path, capsys):
    pictures = annotate_pages(letter, [entity_of(letter, "number", "2024-117")])
    save_pages(pictures[:1], tmp_path / "one.png")
    assert Image.open(tmp_path / "one.png").size == pictures[0].size
    save_pages(pictures, tmp_path / "all.png")
    tiled = Image.open(tmp_path / "all.png")
    assert tiled.width * tiled.height >= 3 * pictures[0].width * pictures[0].height  # full size, side by side
    assert capsys.readouterr() == ("", "")
    save_pages(pictures, tmp_path / "deep/few.png", max_pages=2)
    assert Image.open(tmp_path / "deep/few.png").size == pictures[0].size  # the only page with an entity
    assert "shows 1 of 3 pages" in capsys.readouterr().err
    save_pages(pictures, tmp_path / "all.pdf")
    pdf = pdfium.PdfDocument(tmp_path / "all.pdf")
    assert len(pdf) == 3
    pdf.close()
    with pytest.raises(InputError, match=r"suffix '\.docx'; save pages as"):
        save_pages(pictures, tmp_path / "all.docx")
    with pytest.raises(InputError, match="no pages to save"):
        save_pages([], tmp_path / "none.png")
