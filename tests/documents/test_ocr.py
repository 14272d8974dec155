"""Pages of known words made into pictures, read by the real Tesseract."""

import builtins
import logging
import shutil
import subprocess

import numpy as np
import pypdfium2 as pdfium
import pytest
from PIL import Image
from reportlab.pdfgen.canvas import Canvas
from tests.pdfs import PAGE, Text, make_pdf

from broadsheet.documents import InputError, read_document, read_image, read_pdf, read_scanned_pdf
from broadsheet.documents.page_images import read_frames

pytest.importorskip("pytesseract", reason="pytesseract is not installed (pip install broadsheet[ocr])")
needs_tesseract = pytest.mark.skipif(
    shutil.which("tesseract") is None, reason="the program tesseract is not installed (apt install tesseract-ocr)"
)

WIDTH, HEIGHT = PAGE
LETTER = [
    Text("Invoice number 2024-117", 72, 700, 14),
    Text("Please transfer the amount of 1,250.00 EUR", 72, 660, 12),
    Text("before 30 November 2024 to our account.", 72, 640, 12),
    Text("Yours sincerely", 300, 560, 12),
]
SECOND = [Text("Annex to the contract of sale", 100, 600, 14), Text("Signed in Rotterdam", 100, 560, 14)]
DPI = 300


def words_of(texts):
    return [word for text in texts for word in text.text.split()]


def picture(pdf_path, page=0, dpi=DPI):
    pdf = pdfium.PdfDocument(pdf_path)
    image = pdf[page].render(scale=dpi / 72).to_pil().convert("L")
    pdf.close()
    return image


@pytest.fixture
def letter(tmp_path):
    """The letter as an image of DPI dots per inch."""
    return picture(make_pdf(tmp_path / "letter.pdf", [LETTER]))


def scan_pdf(path, images, rotate=0):
    """A PDF file of pictures alone, upright if `rotate`, its pages' /Rotate, is undone."""
    turned = [image.rotate(rotate, expand=True) for image in images]
    turned[0].save(path, save_all=True, append_images=turned[1:], resolution=DPI)
    if rotate:
        pdf = pdfium.PdfDocument(path.read_bytes())
        for page in pdf:
            page.set_rotation(rotate)
        pdf.save(path)
        pdf.close()
    return path


def assert_places(boxes, texts, scale=1.0):
    """Boxes hold the words' ink: as wide as reportlab says, on their baselines. In points after `scale`."""
    boxes = iter(boxes)
    for text in texts:
        for word in text.text.split():
            x0, y0, x1, y1 = (edge * scale for edge in next(boxes))
            start, end = text.span(word)
            assert x0 == pytest.approx(text.x + start, abs=2.0), word
            assert x1 == pytest.approx(text.x + end, abs=2.0), word
            baseline = HEIGHT - text.y
            assert baseline - 0.85 * text.size < y0 < baseline - 0.4 * text.size, word
            assert baseline - 0.1 * text.size < y1 < baseline + 0.3 * text.size, word


@needs_tesseract
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif", ".bmp", ".webp"])
def test_words_and_boxes_of_an_image(tmp_path, letter, suffix):
    path = tmp_path / f"scan{suffix}"
    letter.save(path, dpi=(DPI, DPI))
    document = read_document(path)
    assert document.words == words_of(LETTER)
    assert document.page_sizes == [letter.size]
    assert document.source == str(path)
    assert_places(document.boxes, LETTER, 72 / DPI)
    lines = [document.segment_ids[document.words.index(text.text.split()[0])] for text in LETTER]
    assert lines == [0, 1, 2, 3]


# EXIF orientations: how the stored picture must be turned to stand upright, and the Pillow operation that undoes it.
TURNED = {
    3: Image.Transpose.ROTATE_180,
    6: Image.Transpose.ROTATE_90,
    8: Image.Transpose.ROTATE_270,
}


@needs_tesseract
@pytest.mark.parametrize("orientation", TURNED)
@pytest.mark.parametrize("suffix", [".jpg", ".tif"])
def test_images_are_turned_as_their_exif_data_say(tmp_path, letter, orientation, suffix):
    path = tmp_path / f"photo{suffix}"
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = letter.transpose(TURNED[orientation])
    stored.save(path, exif=exif)
    if orientation != 3:
        assert stored.size != letter.size
    document = read_image(path)
    assert document.words == words_of(LETTER)
    assert document.page_sizes == [letter.size]
    assert_places(document.boxes, LETTER, 72 / DPI)


@needs_tesseract
def test_frames_of_a_tiff_are_pages(tmp_path, caplog, letter):
    second = picture(make_pdf(tmp_path / "b.pdf", [SECOND], page_size=(WIDTH, 650.0)))
    blank = Image.new("1", (500, 300), 1)
    path = tmp_path / "fax.tiff"
    letter.save(path, save_all=True, append_images=[blank, second.convert("1")])
    document = read_image(path)
    assert document.words == words_of(LETTER) + words_of(SECOND)
    assert document.page_sizes == [letter.size, (500, 300), second.size]
    assert document.page_ids == [0] * len(words_of(LETTER)) + [2] * len(words_of(SECOND))
    assert document.segment_ids == sorted(document.segment_ids)
    assert len(set(document.segment_ids)) == len(LETTER) + len(SECOND)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{path} has no words on page 2 of 3; if there is text to be seen, run the OCR again."
    ]


def as_16_bits(image):
    return Image.fromarray(np.asarray(image).astype(np.uint16) * 257)


def on_nothing(image):
    """Black ink on transparent black, as some scanning programs save it."""
    return Image.merge("LA", (Image.new("L", image.size, 0), Image.eval(image, lambda value: 255 - value)))


@pytest.mark.parametrize(
    ("convert", "mode"),
    [
        (lambda image: image, "L"),
        (lambda image: image.convert("1"), "L"),
        (lambda image: image.convert("P"), "RGB"),
        (lambda image: image.convert("RGB"), "RGB"),
        (on_nothing, "RGB"),
        (as_16_bits, "L"),
    ],
    ids=["grey", "1 bit", "palette", "colour", "transparent", "16 bits"],
)
def test_images_of_every_kind_become_black_on_white(tmp_path, letter, convert, mode):
    convert(letter).save(tmp_path / "a.png", dpi=(DPI, DPI))
    ((frame, dpi),) = read_frames(tmp_path / "a.png")
    assert frame.mode == mode
    assert dpi == pytest.approx(DPI, abs=0.1)
    difference = np.abs(np.asarray(frame.convert("L"), dtype=float) - np.asarray(letter, dtype=float))
    assert difference.mean() < 1
    assert np.asarray(letter).min() < 50  # there is ink


@needs_tesseract
@pytest.mark.parametrize(
    ("formats", "name", "options"),
    [
        ("hocr", "out.hocr", ()),
        ("hocr", "out.hocr", ("-c", "hocr_char_boxes=1")),
        ("alto", "out.xml", ()),
        ("tsv", "out.tsv", ()),
    ],
)
def test_files_that_tesseract_writes_read_as_the_image_itself(tmp_path, letter, formats, name, options):
    second = picture(make_pdf(tmp_path / "b.pdf", [SECOND]))
    letter.save(tmp_path / "fax.tiff", save_all=True, append_images=[second], dpi=(DPI, DPI))
    command = ["tesseract", "fax.tiff", "out", *options, formats]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    document, expected = read_document(tmp_path / name), read_image(tmp_path / "fax.tiff")
    assert document.words == expected.words == words_of(LETTER) + words_of(SECOND)
    assert document.boxes == expected.boxes
    assert document.page_ids == expected.page_ids
    assert document.page_sizes == expected.page_sizes
    assert document.segment_ids == expected.segment_ids
    assert document.source == str(tmp_path / ("fax.tiff" if formats == "hocr" else name))


@needs_tesseract
@pytest.mark.parametrize("rotate", [0, 90])
def test_scanned_pdf_gives_points_of_the_displayed_page(tmp_path, letter, rotate):
    path = scan_pdf(tmp_path / "scan.pdf", [letter], rotate)
    document = read_document(path, ocr="empty_pages")
    assert document.words == words_of(LETTER)
    assert document.page_sizes == [pytest.approx(PAGE, abs=0.5)]
    assert document.source == str(path)
    assert_places(document.boxes, LETTER)
    with pytest.raises(InputError, match="run it through OCR"):
        read_document(path)


@pytest.fixture
def mixed_pdf(tmp_path):
    """Page 1 has text, page 2 is a picture, page 3 is blank, page 4 has text."""
    pictures = scan_pdf(tmp_path / "scan.pdf", [picture(make_pdf(tmp_path / "a.pdf", [SECOND]))])
    texts = make_pdf(tmp_path / "b.pdf", [LETTER, [], LETTER[:2]])
    mixed, scanned = pdfium.PdfDocument(texts.read_bytes()), pdfium.PdfDocument(pictures.read_bytes())
    mixed.import_pages(scanned, [0], index=1)
    path = tmp_path / "mixed.pdf"
    mixed.save(path)
    mixed.close()
    scanned.close()
    return path


@needs_tesseract
def test_pages_with_a_text_layer_keep_it(mixed_pdf, caplog):
    document = read_scanned_pdf(mixed_pdf)
    plain = read_pdf(mixed_pdf, on_empty_page="ignore")
    assert document.words == words_of(LETTER) + words_of(SECOND) + words_of(LETTER[:2])
    assert document.num_pages == 4
    for page in (0, 3):
        ids, plain_ids = document.word_ids_of_page(page), plain.word_ids_of_page(page)
        assert [document.boxes[index] for index in ids] == [plain.boxes[index] for index in plain_ids]
        starts = [document.segment_ids[index] - document.segment_ids[ids[0]] for index in ids]
        assert starts == [plain.segment_ids[index] - plain.segment_ids[plain_ids[0]] for index in plain_ids]
    assert_places([document.boxes[index] for index in document.word_ids_of_page(1)], SECOND)
    assert document.segment_ids == sorted(document.segment_ids)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{mixed_pdf} has no words on page 3 of 4; if there is text to be seen, run the OCR again."
    ]
    with pytest.raises(InputError, match="has no words on page 3"):
        read_scanned_pdf(mixed_pdf, on_empty_page="raise")


@needs_tesseract
def test_stamped_scans_are_reported(tmp_path, letter, caplog):
    letter.save(tmp_path / "a.png")
    canvas = Canvas(str(tmp_path / "stamped.pdf"), pagesize=PAGE)
    canvas.drawImage(str(tmp_path / "a.png"), 0, 0, WIDTH, HEIGHT)
    canvas.drawString(500, 30, "Page 1")
    canvas.save()
    assert read_scanned_pdf(tmp_path / "stamped.pdf").words == ["Page", "1"]
    assert "stamped.pdf has a picture all over page 1, but only a few words" in caplog.records[0].getMessage()
    caplog.clear()
    document = read_scanned_pdf(tmp_path / "stamped.pdf", pages=[0])
    assert document.words == [*words_of(LETTER), "Page", "1"]
    assert_places(document.boxes, LETTER)
    assert not caplog.records


@needs_tesseract
def test_chosen_pages_are_read_by_ocr(mixed_pdf):
    plain = read_pdf(mixed_pdf, on_empty_page="ignore")
    document = read_scanned_pdf(mixed_pdf, pages=[3])
    assert document.words == plain.words
    assert document.boxes[-9:] != plain.boxes[-9:]
    first = document.word_ids_of_page(0)
    assert [document.boxes[index] for index in first] == [plain.boxes[index] for index in plain.word_ids_of_page(0)]
    everything = read_document(mixed_pdf, ocr="always")
    assert everything.words == words_of(LETTER) + words_of(SECOND) + words_of(LETTER[:2])
    assert everything.boxes[0] != plain.boxes[0]
    assert_places(everything.boxes, [*LETTER, *SECOND, *LETTER[:2]])


def test_pdf_with_text_needs_no_tesseract(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    path = make_pdf(tmp_path / "a.pdf", [LETTER])
    assert read_document(path, ocr="empty_pages") == read_pdf(path)


@needs_tesseract
def test_page_of_filled_in_fields_alone_needs_no_tesseract(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    canvas = Canvas(str(tmp_path / "form.pdf"), pagesize=(400, 300))
    canvas.line(20, 20, 380, 20)
    canvas.acroForm.textfield(name="name", value="Ada Lovelace", x=80, y=240, width=200, height=24)
    canvas.save()
    assert read_scanned_pdf(tmp_path / "form.pdf").words == ["Ada", "Lovelace"]


def test_protected_scan_opens_with_its_password(tmp_path):
    path = make_pdf(tmp_path / "a.pdf", [LETTER], password="secret")
    assert read_scanned_pdf(path, pages="all", password="secret", dpi=DPI).words == words_of(LETTER)
    assert read_document(path, ocr="always", password="secret", dpi=DPI).words == words_of(LETTER)
    with pytest.raises(InputError, match="protected by a password"):
        read_scanned_pdf(path, pages="all")


# Bad input.


@needs_tesseract
def test_blank_images_are_refused(tmp_path):
    Image.new("L", (400, 300), 255).save(tmp_path / "blank.png")
    with pytest.raises(InputError, match=r"blank\.png has no words on any of its 1 page"):
        read_image(tmp_path / "blank.png")


@needs_tesseract
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.write_bytes(b""), r"a\.png is empty"),
        (lambda path: path.write_text("no picture"), r"a\.png is not an image that can be read"),
        (lambda path: path.mkdir(), r"a\.png is a folder; pass the path of one image file"),
        (lambda path: None, r"There is no file .*a\.png"),
    ],
)
def test_files_that_are_no_images_are_refused(tmp_path, make, message):
    make(tmp_path / "a.png")
    with pytest.raises(InputError, match=message):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif"])
def test_truncated_images_are_refused(tmp_path, letter, suffix):
    path = tmp_path / f"a{suffix}"
    letter.save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(InputError, match=rf"a\{suffix} is (damaged|not an image)"):
        list(read_frames(path))


def test_images_of_absurd_size_are_refused(tmp_path, letter, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    letter.save(tmp_path / "a.png")
    with pytest.raises(InputError, match="more pixels than a page needs"):
        list(read_frames(tmp_path / "a.png"))


@needs_tesseract
def test_images_longer_than_tesseract_takes_are_refused(tmp_path):
    Image.new("1", (33_000, 20), 1).save(tmp_path / "a.png")
    with pytest.raises(InputError, match=r"page 1 of .*a\.png is 33000 x 20 pixels"):
        read_image(tmp_path / "a.png")


@needs_tesseract
@pytest.mark.parametrize(
    ("languages", "message"),
    [
        ("eng+tlh", r"language tlh \(it has .*eng.*apt install tesseract-ocr-tlh"),
        ("", r"does not have the language ''"),
    ],
)
def test_missing_languages_are_named(tmp_path, letter, languages, message):
    letter.save(tmp_path / "a.png")
    with pytest.raises(InputError, match=message):
        read_image(tmp_path / "a.png", languages)


def test_missing_program_is_named(tmp_path, letter, monkeypatch):
    letter.save(tmp_path / "a.png")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="needs the program tesseract; install it"):
        read_image(tmp_path / "a.png")


def test_missing_package_is_named(tmp_path, letter, monkeypatch):
    def without_pytesseract(name, *args, **kwargs):
        if name == "pytesseract":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    letter.save(tmp_path / "a.png")
    real_import = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", without_pytesseract)
    with pytest.raises(InputError, match=r'pip install "broadsheet\[ocr\]"'):
        read_image(tmp_path / "a.png")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pages": "some"}, "pages is 'some'; it can be 'empty', 'all'"),
        ({"pages": [0, 1]}, r"a\.pdf has no page 1; its pages are numbered from 0 to 0"),
        ({"pages": [-1]}, "has no page -1"),
        ({"dpi": 0}, "dpi is 0; choose between 36 and 1200"),
        ({"on_empty_page": "skip"}, "on_empty_page is 'skip'"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, arguments, message):
    path = make_pdf(tmp_path / "a.pdf", [LETTER])
    with pytest.raises(InputError, match=message):
        read_scanned_pdf(path, **arguments)


def test_wrong_choice_of_ocr_is_refused(tmp_path):
    with pytest.raises(InputError, match="ocr is 'sometimes'; it can be 'never', 'empty_pages' or 'always'"):
        read_document(tmp_path / "a.pdf", ocr="sometimes")
