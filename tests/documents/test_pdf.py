"""Words and boxes of PDF files, against where they were drawn."""

import logging
import os
from pathlib import Path

import pypdfium2 as pdfium
import pytest
from reportlab.pdfgen.canvas import Canvas
from tests.pdfs import PAGE, Text, make_pdf

from broadsheet.documents import InputError, read_document, read_pdf

WIDTH, HEIGHT = PAGE
LINE = Text("Invoice no. 2024-117 Amount", 72, 700, 12)


def box_of(document, word):
    return document.boxes[document.words.index(word)]


def assert_level_box(box, text, word, page_height=HEIGHT, left=0.0):
    """The box is as wide as reportlab says, and reaches from below the baseline to above the capitals."""
    start, end = text.span(word)
    assert box[0] == pytest.approx(text.x + start - left, abs=0.1)
    assert box[2] == pytest.approx(text.x + end - left, abs=0.1)
    baseline = page_height - text.y
    assert baseline - 1.1 * text.size <= box[1] <= baseline - 0.7 * text.size
    assert baseline + 0.15 * text.size <= box[3] <= baseline + 0.35 * text.size


@pytest.mark.parametrize("font", ["Helvetica", "Times-Roman", "Courier-Bold"])
def test_words_have_the_boxes_they_were_drawn_at(tmp_path, font):
    line = Text(LINE.text, 72, 700, 12, font)
    document = read_pdf(make_pdf(tmp_path / "a.pdf", [[line]]))
    assert document.words == line.text.split()
    for word in document.words:
        assert_level_box(box_of(document, word), line, word)
    # one line, one height: what later stages compare
    assert len({(round(box[1], 3), round(box[3], 3)) for box in document.boxes}) == 1
    assert document.page_sizes == [PAGE]
    assert document.source == str(tmp_path / "a.pdf")


def test_pages_keep_their_words_and_segments_ascend(tmp_path):
    pages = [[Text("first page", 72, 700), Text("right", 400, 700)], [Text("second", 72, 600), Text("end", 72, 580)]]
    document = read_pdf(make_pdf(tmp_path / "a.pdf", pages))
    assert document.words == ["first", "page", "right", "second", "end"]
    assert document.page_ids == [0, 0, 0, 1, 1]
    assert document.segment_ids == [0, 0, 1, 2, 3]
    assert document.num_pages == 2
    assert document.word_ids_of_page(1) == [3, 4]


# Where the string's start, its direction and its upper side come to stand on the displayed page, per /Rotate.
@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("crop_box", [None, (50.0, 100.0, 550.0, 760.0)])
def test_rotated_and_cropped_pages_give_displayed_coordinates(tmp_path, rotate, crop_box):
    path = make_pdf(tmp_path / "a.pdf", [[LINE]], rotate=rotate, crop_box=crop_box)
    document = read_pdf(path)
    left, bottom, right, top = crop_box or (0.0, 0.0, WIDTH, HEIGHT)
    size = (right - left, top - bottom)
    assert document.page_sizes == [pytest.approx(size if rotate % 180 == 0 else size[::-1])]
    start, end = LINE.span("2024-117")
    x0, x1, baseline = LINE.x + start - left, LINE.x + end - left, LINE.y - bottom
    box = box_of(document, "2024-117")
    if rotate == 0:
        along, across, line = (box[0], box[2]), (box[1], box[3]), size[1] - baseline
        expected = (x0, x1)
    elif rotate == 90:  # clockwise: the page's left edge is on top, text runs down
        along, across, line = (box[1], box[3]), (box[0], box[2]), baseline
        expected = (x0, x1)
    elif rotate == 180:
        along, across, line = (box[0], box[2]), (box[1], box[3]), baseline
        expected = (size[0] - x1, size[0] - x0)
    else:
        along, across, line = (box[1], box[3]), (box[0], box[2]), size[1] - baseline
        expected = (size[0] - x1, size[0] - x0)
    assert along == pytest.approx(expected, abs=0.1)
    assert across[0] < line < across[1]
    assert across[1] - across[0] == pytest.approx(LINE.size, rel=0.25)


def test_media_box_with_another_origin(tmp_path):
    path = make_pdf(tmp_path / "a.pdf", [[LINE]], media_box=(-100.0, -50.0, 612.0, 792.0))
    document = read_pdf(path)
    assert document.page_sizes == [(712.0, 842.0)]
    assert_level_box(box_of(document, "Invoice"), LINE, "Invoice", left=-100.0)


@pytest.mark.parametrize("angle", [90, 180, 270])
def test_text_at_quarter_turns_is_as_high_as_level_text(tmp_path, angle):
    """Text turned on the page, as in landscape tables, keeps word order, extent and font height."""
    text = Text("Quarterly own report", 300, 400, 12, angle=angle)
    document = read_pdf(make_pdf(tmp_path / "a.pdf", [[text]]))
    assert document.words == ["Quarterly", "own", "report"]
    start, end = text.span("own")
    box = box_of(document, "own")
    if angle == 180:
        along, across, expected = (box[0], box[2]), (box[1], box[3]), (300 - end, 300 - start)
    elif angle == 90:
        along, across, expected = (box[1], box[3]), (box[0], box[2]), (HEIGHT - 400 - end, HEIGHT - 400 - start)
    else:
        along, across, expected = (box[1], box[3]), (box[0], box[2]), (HEIGHT - 400 + start, HEIGHT - 400 + end)
    assert along == pytest.approx(expected, abs=1.0)  # the ink, which is narrower than the advance
    level = read_pdf(make_pdf(tmp_path / "b.pdf", [[Text("own", 300, 400, 12)]])).boxes[0]
    assert across[1] - across[0] == pytest.approx(level[3] - level[1], abs=0.1)


def test_upright_text_on_a_turned_page_reads_as_on_a_level_one(tmp_path):
    """A landscape page made the usual way: text turned by 90 degrees on a page with /Rotate 90."""
    text = Text("Net amount", 300, 200, 12, angle=90)
    document = read_pdf(make_pdf(tmp_path / "a.pdf", [[text]], rotate=90))
    assert document.page_sizes == [(792.0, 612.0)]
    first, second = document.boxes
    assert first[0] == pytest.approx(200, abs=1.0)
    assert second[0] > first[2]
    assert (first[1], first[3]) == pytest.approx((second[1], second[3]))
    assert first[3] - first[1] == pytest.approx(12, rel=0.25)
    assert first[1] < 300 < first[3]


def test_slanted_text_has_a_box_around_it(tmp_path):
    text = Text("DRAFT", 200, 300, 60, angle=45)
    document = read_pdf(make_pdf(tmp_path / "a.pdf", [[text]]))
    assert document.words == ["DRAFT"]
    x0, y0, x1, y1 = document.boxes[0]
    reach = text.span("DRAFT")[1] / 2**0.5
    assert 150 < x0 < 210
    assert x1 - x0 == pytest.approx(reach, rel=0.25)
    assert y1 - y0 == pytest.approx(reach, rel=0.25)


def test_wide_gaps_split_words_without_a_space(tmp_path):
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=PAGE)
    canvas.setFont("Helvetica", 10)
    canvas.drawString(72, 700, "Total")
    canvas.drawString(300, 700, "120.00")
    canvas.drawString(72, 680, "fil")
    canvas.drawString(72 + canvas.stringWidth("fil", "Helvetica", 10), 680, "ing")  # one word drawn in two pieces
    canvas.drawString(72, 660, "of")
    canvas.drawString(72 + canvas.stringWidth("of", "Helvetica", 10) + 0.8, 660, "the")  # as OCR layers do
    canvas.save()
    assert read_pdf(tmp_path / "a.pdf").words == ["Total", "120.00", "filing", "of", "the"]


def test_wide_gap_inside_one_string_splits_it(tmp_path):
    """A kerning array that jumps to the next column draws both words at once, with no space character."""
    path = tmp_path / "a.pdf"
    canvas = Canvas(str(path), pagesize=PAGE, pageCompression=0)
    canvas._code.append("BT /F1 12 Tf 72 700 Td [(Paid)-9000(1.00)] TJ ET")
    canvas.save()
    document = read_pdf(path)
    assert document.words == ["Paid", "1.00"]
    assert document.segment_ids == [0, 1]


def test_letterspaced_words_stay_whole(tmp_path):
    text = Text("INVOICE", 72, 700, 20, char_space=3)
    assert read_pdf(make_pdf(tmp_path / "a.pdf", [[text]])).words == ["INVOICE"]


def test_hyphenated_word_is_two_words_with_its_hyphen(tmp_path):
    page = [Text("a confiden-", 72, 700), Text("tial agreement", 72, 684)]
    document = read_pdf(make_pdf(tmp_path / "a.pdf", [page]))
    assert document.words == ["a", "confiden-", "tial", "agreement"]
    assert document.boxes[1][3] < document.boxes[2][3]
    assert document.segment_ids == [0, 0, 1, 1]


def test_ligatures_no_break_spaces_and_superscripts(tmp_path):
    canvas = Canvas(str(tmp_path / "a.pdf"), pagesize=PAGE)
    text = canvas.beginText(72, 700)
    text.setFont("Helvetica", 12)
    text.textOut("10\xa0000 kg on the 3")
    text.setRise(4)
    text.textOut("rd")
    canvas.drawText(text)
    canvas.save()
    assert read_pdf(tmp_path / "a.pdf").words == ["10", "000", "kg", "on", "the", "3rd"]


def test_ligature_glyphs_become_letters(tmp_path):
    from reportlab.pdfbase.pdfmetrics import registerFont
    from reportlab.pdfbase.ttfonts import TTFont

    registerFont(TTFont("Vera", "Vera.ttf"))  # comes with reportlab, and has the fi and fl ligatures
    document = read_pdf(make_pdf(tmp_path / "a.pdf", [[Text("of\ufb01ce re\ufb02ect naïve €5", 72, 700, 12, "Vera")]]))
    assert document.words == ["office", "reflect", "naïve", "€5"]
    assert_level_box(document.boxes[0], Text("of\ufb01ce", 72, 700, 12, "Vera"), "of\ufb01ce")


@pytest.mark.parametrize("rotate", [0, 90])
def test_filled_in_form_fields_are_read(tmp_path, rotate):
    canvas = Canvas(str(tmp_path / "form.pdf"), pagesize=(400, 300))
    canvas.drawString(20, 250, "Name:")
    canvas.acroForm.textfield(name="name", value="Ada Lovelace", x=80, y=240, width=200, height=24)
    canvas.save()
    pdf = pdfium.PdfDocument((tmp_path / "form.pdf").read_bytes())
    pdf[0].set_rotation(rotate)
    pdf.save(tmp_path / "form.pdf")
    pdf.close()
    document = read_pdf(tmp_path / "form.pdf")
    assert document.words == ["Name:", "Ada", "Lovelace"]
    x0, y0, x1, y1 = document.boxes[1]
    if rotate:
        assert 80 <= y0 < y1 <= 150
        assert 236 <= x0 < x1 <= 268
    else:
        assert 80 <= x0 < x1 <= 150
        assert 300 - 268 <= y0 < y1 <= 300 - 236


def test_zero_sized_text_is_kept(tmp_path):
    document = read_pdf(make_pdf(tmp_path / "a.pdf", [[Text("seen", 72, 700), Text("tiny", 72, 650, 0.01)]]))
    assert "seen" in document.words
    assert all(x0 <= x1 and y0 <= y1 for x0, y0, x1, y1 in document.boxes)


def test_words_off_the_page_are_clipped_and_counted(tmp_path, caplog):
    page = [Text("inside", 72, 700), Text("overhanging", 590, 600), Text("outside", 900, 500)]
    with caplog.at_level(logging.WARNING):
        document = read_pdf(make_pdf(tmp_path / "cut.pdf", [page]))
    assert document.words == ["inside", "overhanging", "outside"]
    assert document.boxes[1][2] == WIDTH
    assert document.boxes[2][0] == document.boxes[2][2] == WIDTH
    assert [record.message for record in caplog.records] == [
        f"{tmp_path / 'cut.pdf'} has 2 words reaching over the page's edge on page 1; their boxes were clipped to it."
    ]


def test_pages_without_text_are_reported(tmp_path, caplog):
    path = make_pdf(tmp_path / "scan.pdf", [[LINE], [], [LINE], []])
    with caplog.at_level(logging.WARNING):
        document = read_pdf(path)
    assert document.num_pages == 4
    assert sorted(set(document.page_ids)) == [0, 2]
    (record,) = caplog.records
    assert str(path) in record.message
    assert "no text on pages 2, 4 of 4" in record.message
    assert "OCR" in record.message
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        read_pdf(path, on_empty_page="ignore")
    assert not caplog.records
    with pytest.raises(InputError, match="no text on pages 2, 4 of 4.*OCR"):
        read_pdf(path, on_empty_page="raise")
    with pytest.raises(InputError, match="on_empty_page is 'skip'"):
        read_pdf(path, on_empty_page="skip")


def test_document_without_any_text(tmp_path):
    with pytest.raises(InputError, match=r"blank\.pdf has no text on any of its 2 pages; run it through OCR first\."):
        read_pdf(make_pdf(tmp_path / "blank.pdf", [[], []]))


def test_encrypted_file(tmp_path):
    path = make_pdf(tmp_path / "locked.pdf", [[LINE]], password="sesame")
    with pytest.raises(InputError, match=r"locked\.pdf is protected by a password; pass it as password="):
        read_pdf(path)
    with pytest.raises(InputError, match=r"password does not open .*locked\.pdf"):
        read_pdf(path, password="open")
    assert read_pdf(path, password="sesame").words == LINE.text.split()
    assert read_document(path, password="sesame").words == LINE.text.split()


def test_unusable_files(tmp_path):
    whole = make_pdf(tmp_path / "whole.pdf", [[LINE]] * 3).read_bytes()
    bad = {
        "empty.pdf": (b"", "is empty; get a fresh copy"),
        "text.pdf": (b"Dear Sir or Madam", "is not a PDF file .*convert it"),
        "cut.pdf": (whole[: len(whole) // 2], "is truncated .*fresh copy"),
        "garbage.pdf": (b"%PDF-1.4\n" + bytes(range(256)) * 20 + b"\n%%EOF", "is damaged .*fresh copy"),
    }
    for name, (content, message) in bad.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=f"{name} {message}") as caught:
            read_pdf(tmp_path / name)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"no file .*missing\.pdf"):
        read_pdf(tmp_path / "missing.pdf")
    with pytest.raises(InputError, match="is a folder"):
        read_pdf(tmp_path)


def test_damaged_table_of_contents_is_reported(tmp_path, caplog):
    content = make_pdf(tmp_path / "whole.pdf", [[LINE]]).read_bytes()
    place = content.rindex(b"startxref\n") + len(b"startxref\n")
    end = content.index(b"\n", place)
    (tmp_path / "patched.pdf").write_bytes(content[:place] + b"7" + content[end:])
    with caplog.at_level(logging.WARNING):
        document = read_pdf(tmp_path / "patched.pdf")
    assert document.words == LINE.text.split()
    assert any("patched.pdf is damaged" in record.message for record in caplog.records)


def test_file_is_closed_after_reading_and_after_failing(tmp_path):
    path = make_pdf(tmp_path / "a.pdf", [[LINE]])
    blank = make_pdf(tmp_path / "b.pdf", [[]])
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("counts open files in /proc, which this system does not have")
    before = len(os.listdir(descriptors))
    for _ in range(5):
        read_pdf(path)
        with pytest.raises(InputError):
            read_pdf(blank)
    assert len(os.listdir(descriptors)) == before


def test_pdfium_render_and_boxes_agree(tmp_path):
    """The ink of the rendered page lies in the words' boxes, on a turned and cropped page."""
    path = make_pdf(tmp_path / "a.pdf", [[LINE]], rotate=270, crop_box=(50.0, 100.0, 550.0, 760.0))
    document = read_pdf(path)
    pdf = pdfium.PdfDocument(path)
    picture = pdf[0].render(scale=2).to_numpy().min(axis=2) < 128
    pdf.close()
    ink = picture.sum()
    assert ink > 200
    for x0, y0, x1, y1 in document.boxes:
        picture[int(2 * y0) - 1 : int(2 * y1) + 2, int(2 * x0) - 1 : int(2 * x1) + 2] = False
    assert picture.sum() == 0
