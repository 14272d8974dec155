"""hOCR files of several engines, tidy and untidy, made here; and real ones."""

import logging
import os
import re
from pathlib import Path

import pytest
from PIL import Image

from broadsheet.documents import InputError, read_document, read_hocr

# As Tesseract 5 writes it.
TESSERACT = """<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.0 Transitional//EN"
    "http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd">
<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en" lang="en">
 <head>
  <title></title>
  <meta http-equiv="Content-Type" content="text/html;charset=utf-8"/>
  <meta name='ocr-system' content='tesseract 5.3.0' />
 </head>
 <body>
  <div class='ocr_page' id='page_1' title='image "scan.png"; bbox 0 0 200 300; ppageno 0; scan_res 70 70'>
   <div class='ocr_carea' id='block_1_1' title="bbox 10 10 150 60">
    <p class='ocr_par' id='par_1_1' lang='eng' title="bbox 10 10 150 60">
     <span class='ocr_header' id='line_1_1' title="bbox 10 10 150 30; baseline 0 -5; x_size 20">
      <span class='ocrx_word' id='word_1_1' title='bbox 10 10 60 30; x_wconf 96'>Smith&#39;s</span>
      <span class='ocrx_word' title='bbox 70 12 150 30; x_wconf 91'><strong><em>caf&eacute;</em></strong></span>
     </span>
     <span class='ocr_line' id='line_1_2' title="bbox 10 40 150 60">
      <span class='ocrx_word' id='word_1_3' title='bbox 10 40 30 60; x_wconf 96'>A&amp;B</span>
     </span>
    </p>
   </div>
   <div class='ocr_photo' id='block_1_2' title="bbox 0 100 200 200"></div>
   <div class='ocr_carea' id='block_1_3' title="bbox 0 100 200 200">
    <p class='ocr_par' id='par_1_2' lang='eng' title="bbox 0 100 200 200">
     <span class='ocr_line' id='line_1_3' title="bbox 0 100 200 200">
      <span class='ocrx_word' id='word_1_4' title='bbox 0 100 200 200; x_wconf 95'> </span>
     </span>
    </p>
   </div>
  </div>
  <div class='ocr_page' id='page_2' title='image "scan.png"; bbox 0 0 300 200; ppageno 1'>
     <span class='ocr_textfloat' id='line_2_1' title="bbox 10 40 150 60">
      <span class='ocrx_word' id='word_2_1' title='bbox 10.5 40 30 60.25; x_wconf 96'>Seite</span>
     </span>
  </div>
 </body>
</html>
"""


def write(folder, text, name="page.hocr", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def page(body, title="bbox 0 0 1000 500"):
    return f"<html><body><div class='ocr_page' title='{title}'>{body}</div></body></html>"


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_words_boxes_pages_and_lines_of_tesseract(tmp_path, caplog):
    document = read_hocr(write(tmp_path, TESSERACT))
    assert document.words == ["Smith's", "café", "A&B", "Seite"]
    assert document.boxes == [[10, 10, 60, 30], [70, 12, 150, 30], [10, 40, 30, 60], [10.5, 40, 30, 60.25]]
    assert document.page_ids == [0, 0, 0, 1]
    assert document.page_sizes == [(200, 300), (300, 200)]
    assert document.segment_ids == [0, 0, 1, 2]
    assert document.source == str(tmp_path / "page.hocr")
    assert warnings(caplog) == []


@pytest.mark.parametrize("suffix", [".hocr", ".html", ".htm", ".xml", ".xhtml"])
def test_read_document_takes_its_suffixes(tmp_path, suffix):
    path = write(tmp_path, TESSERACT, "page" + suffix)
    assert read_document(path).words == ["Smith's", "café", "A&B", "Seite"]


# Each is a page of the words "one" (10 10 40 30) and "two" (50 10 80 30) in one line, as some program or hand left it.
LINE = "class='ocr_line' title='bbox 10 10 80 30'"
QUIRKS = {
    "unclosed elements": f"<p class=ocr_par><span {LINE}><span class=ocrx_word title='bbox 10 10 40 30'>one"
    "<span class=ocrx_word title='bbox 50 10 80 30'>two<p class=ocr_par>",
    "unclosed lines": f"<span {LINE}><span class='ocrx_word' title='bbox 10 10 40 30'>one</span> "
    "<span class='ocrx_word' title='bbox 50 10 80 30'>two</span><span class='ocr_line' title='bbox 0 0 9 9'> ",
    "upper case, no quotes around classes": f"<SPAN {LINE}><SPAN CLASS=ocrx_word TITLE='bbox 10 10 40 30'>one</SPAN>"
    "<SPAN CLASS=ocrx_word TITLE='bbox 50 10 80 30'>two</SPAN></SPAN>",
    "several classes": f"<span {LINE}><b class='bold ocrx_word' title='bbox 10 10 40 30'>one</b>"
    "<i class='ocrx_word italic' title='bbox 50 10 80 30'>two</i></span>",
    "ocr_word": f"<span {LINE}><span class='ocr_word' title='bbox 10 10 40 30'>one</span>"
    "<span class='ocr_word' title='bbox 50 10 80 30'>two</span></span>",
    "ocr_word around ocrx_word, as Tesseract 3": f"<span {LINE}><span class='ocr_word' title='bbox 10 10 40 30'>"
    "<span class='ocrx_word' title='x_wconf -2'>one</span></span><span class='ocr_word' title='bbox 50 10 80 30'>"
    "<span class='ocrx_word' title='x_wconf -2'><strong>two</strong></span></span></span>",
    "characters marked up": f"<span {LINE}><span class='ocrx_word' title='bbox 10 10 40 30; x_wconf 9'>\n"
    "  <span class='ocrx_cinfo' title='x_bboxes 10 10 20 30; x_conf 9'>o</span>\n"
    "  <span class='ocrx_cinfo' title='x_bboxes 20 10 30 30; x_conf 9'>n</span>\n"
    "  <span class='ocrx_cinfo' title='x_bboxes 30 10 40 30; x_conf 9'>e</span>\n </span>"
    "<span class='ocrx_word' title='bbox 50 10 80 30'>two</span></span>",
    "properties in other orders and spacings": f"<span {LINE}>"
    "<span class='ocrx_word' title='x_wconf 9;bbox  10  10 40 30 ;x_font Some bbox;'>one</span>"
    "<span class='ocrx_word' title='x_bboxes 1 2 3 4 5 6 7 8;\n bbox 50 10 80 30'>two</span></span>",
    "inline markup within a word": f"<span {LINE}>"
    "<span class='ocrx_word' title='bbox 10 10 40 30'>o<sup>n</sup>e</span><br>"
    "<span class='ocrx_word' title='bbox 50 10 80 30'><a href='#'>tw</a>o</span></span>",
    "a line within a float": "<div class='ocr_textfloat' title='bbox 0 0 90 90'>"
    f"<span {LINE}><span class='ocrx_word' title='bbox 10 10 40 30'>one</span>\n"
    "<span class='ocrx_word' title='bbox 50 10 80 30'>two</span></span></div>",
    "stray end tags, comments and styles": "</div2></b><!-- <span class='ocrx_word'>no</span> --><style>p {}</style>"
    f"<span {LINE}><span class='ocrx_word' title='bbox 10 10 40 30'>one</em></span>"
    "<span class='ocrx_word' title='bbox 50 10 80 30'>two</span></span>",
    "words in a paragraph without lines": "<p class='ocr_par' title='bbox 1 1 2 2'>"
    "<span class='ocrx_word' title='bbox 10 10 40 30'>one</span> "
    "<span class='ocrx_word' title='bbox 50 10 80 30'>two</span></p>",
}


@pytest.mark.parametrize("quirk", QUIRKS)
def test_quirks_make_no_difference(tmp_path, caplog, quirk):
    document = read_hocr(write(tmp_path, page(QUIRKS[quirk])))
    assert document.words == ["one", "two"]
    assert document.boxes == [[10, 10, 40, 30], [50, 10, 80, 30]]
    assert document.segment_ids == [0, 0]
    assert document.page_sizes == [(1000, 500)]
    assert warnings(caplog) == []


def test_words_on_the_bare_page_have_no_segments(tmp_path):
    word = "<b class='ocrx_word' title='bbox 10 10 40 30'>{}</b>"
    document = read_hocr(write(tmp_path, page(word.format("one") + word.format("two"))))
    assert document.words == ["one", "two"]
    assert document.segment_ids is None


def test_each_paragraph_is_a_segment_where_there_are_no_lines(tmp_path):
    words = "<b class='ocrx_word' title='bbox 1 1 2 2'>a</b><b class='ocrx_word' title='bbox 3 1 4 2'>b</b>"
    paragraph = f"<p class='ocr_par'>{words}"  # left open, as HTML allows
    document = read_hocr(write(tmp_path, page(f"<div class='ocr_carea'>{paragraph}{paragraph}</div>")))
    assert document.words == ["a", "b", "a", "b"]
    assert document.segment_ids == [0, 0, 1, 1]


def test_lines_without_words_share_their_box_by_characters(tmp_path, caplog):
    """As OCRopus writes; "to be or" has 8 characters, spaces included."""
    body = "<span class='ocr_line' title='bbox 100 10 180 30'>to <em>b</em>e\n or</span><br />"
    path = write(tmp_path, page(body))
    document = read_hocr(path)
    assert document.words == ["to", "be", "or"]
    assert document.boxes == [[100, 10, 120, 30], [130, 10, 150, 30], [160, 10, 180, 30]]
    assert warnings(caplog) == [
        f"{path} tells no boxes of their own for 3 words on page 1; they were estimated by counting the line's "
        "characters."
    ]


def test_estimated_boxes_follow_the_line_downwards_and_leftwards(tmp_path):
    body = (
        "<span class='ocr_line' title='bbox 10 100 30 180'>to be or</span>"
        "<span class='ocr_line' title='bbox 100 10 150 30'>אב גד</span>"
    )
    document = read_hocr(write(tmp_path, page(body)))
    assert document.boxes == [
        [10, 100, 30, 120],
        [10, 130, 30, 150],
        [10, 160, 30, 180],
        [130, 10, 150, 30],
        [100, 10, 120, 30],
    ]


def test_single_words_without_a_box_take_their_share_of_the_line(tmp_path, caplog):
    body = (
        "<span class='ocr_line' title='bbox 100 10 180 30'>"
        "<span class='ocrx_word' title='bbox 100 10 121 30'>to</span> "
        "<span class='ocrx_word' title='x_wconf 3'>be</span> or</span>"
    )
    document = read_hocr(write(tmp_path, page(body)))
    assert document.words == ["to", "be", "or"]
    assert document.boxes == [[100, 10, 121, 30], [130, 10, 150, 30], [160, 10, 180, 30]]
    assert "2 words on page 1" in warnings(caplog)[0]


def test_a_word_with_a_space_is_several_words(tmp_path, caplog):
    body = f"<span {LINE}><span class='ocrx_word' title='bbox 10 10 60 30'>1 000</span></span>"
    document = read_hocr(write(tmp_path, page(body)))
    assert document.words == ["1", "000"]
    assert document.boxes == [[10, 10, 20, 30], [30, 10, 60, 30]]
    assert document.segment_ids == [0, 0]
    assert "2 words on page 1" in warnings(caplog)[0]


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ('image "scan.png"; bbox 0 0 100 50', True),
        ("bbox 0 0 200 100; image 'scan.png'", True),  # scaled, but of the same proportions
        ("image scan.png; bbox 0 0 100 50", True),
        ("file scan.png; bbox 0 0 100 50", True),
        ('image "C:\\Users\\me\\scan.png"; bbox 0 0 100 50', True),
        ('image "/not/here/scan.png"; bbox 0 0 100 50', True),
        ('image "other.png"; bbox 0 0 100 50', False),
        ('image "notes.txt"; bbox 0 0 100 50', False),
        ('image "scan.png"; bbox 0 0 50 100', False),  # the picture of something else
    ],
)
def test_source_is_the_image_where_it_exists(tmp_path, title, expected):
    Image.new("L", (100, 50)).save(tmp_path / "scan.png")
    (tmp_path / "notes.txt").write_text("x")
    quoted = title.replace('"', "&quot;").replace("'", "&#39;")
    document = read_hocr(
        write(tmp_path, page("<span class=ocrx_word title='bbox 1 1 2 2'>a</span>", quoted), "a.hocr")
    )
    assert document.source == str(tmp_path / ("scan.png" if expected else "a.hocr"))


def test_unescaped_quotation_marks_in_the_image_name(tmp_path):
    body = "<span class='ocrx_word' title='bbox 10 10 40 30'>one</span>"
    document = read_hocr(write(tmp_path, page(body, 'image "Ann\'s scan.png"; bbox 0 0 640 480')))
    assert document.page_sizes == [(640, 480)]


def test_page_size_comes_from_the_image_where_the_page_has_no_box(tmp_path, caplog):
    Image.new("L", (640, 480)).save(tmp_path / "scan.png")
    body = "<span class='ocr_line' title='bbox 10 10 40 30'>one</span>"
    document = read_hocr(write(tmp_path, page(body, "file scan.png")))
    assert document.page_sizes == [(640, 480)]
    assert document.source == str(tmp_path / "scan.png")
    document = read_hocr(write(tmp_path, page(body, "file gone.png")))
    assert document.page_sizes == [(40, 30)]
    assert "does not tell the size of page 1" in warnings(caplog)[-1]


@pytest.mark.parametrize(
    ("encoding", "head"),
    [
        ("utf-8", ""),
        ("utf-8-sig", ""),
        ("utf-16", ""),
        ("iso-8859-1", '<?xml version="1.0" encoding="ISO-8859-1"?>'),
        ("cp1252", '<head><meta http-equiv="Content-Type" content="text/html; charset=windows-1252"></head>'),
        ("koi8-r", "<meta charset='koi8-r'>"),
    ],
)
def test_encodings(tmp_path, caplog, encoding, head):
    word = "Москва" if encoding == "koi8-r" else "Größe"
    body = head + page(f"<span class='ocrx_word' title='bbox 1 1 2 2'>{word}</span>")
    assert read_hocr(write(tmp_path, body, encoding=encoding)).words == [word]
    assert warnings(caplog) == []


def test_undeclared_encoding_is_guessed_and_reported(tmp_path, caplog):
    body = page("\n<span class='ocrx_word' title='bbox 1 1 2 2'>Größe – 5€</span>")
    path = write(tmp_path, body, encoding="cp1252")
    assert read_hocr(path).words == ["Größe", "–", "5€"]
    assert f"{path} is not in UTF-8 (line 2)" in warnings(caplog)[0]


def test_words_over_the_edge_are_clipped_and_counted(tmp_path, caplog):
    words = ((-20, 10, 40, 30), (50, 10, 80, 30), (990, 10, 1040, 30), (-1, 10, 80, 30))
    body = "".join(f"<b class='ocrx_word' title='bbox {x0} {y0} {x1} {y1}'>w</b>" for x0, y0, x1, y1 in words)
    path = write(tmp_path, page(body))
    document = read_hocr(path)
    assert document.boxes == [[0, 10, 40, 30], [50, 10, 80, 30], [990, 10, 1000, 30], [0, 10, 80, 30]]
    assert warnings(caplog) == [
        f"{path} has 2 words reaching over the page's edge on page 1; their boxes were clipped to it."
    ]


def test_pages_without_words_are_reported(tmp_path, caplog):
    empty = "<div class='ocr_page' title='bbox 0 0 10 10'></div>"
    path = write(tmp_path, empty + TESSERACT + empty)
    document = read_hocr(path)
    assert document.num_pages == 4
    assert sorted(set(document.page_ids)) == [1, 2]
    assert warnings(caplog) == [
        f"{path} has no words on pages 1, 4 of 4; if there is text to be seen, run the OCR again."
    ]
    caplog.clear()
    assert read_hocr(path, on_empty_page="ignore") == document
    assert warnings(caplog) == []
    with pytest.raises(InputError, match="has no words on pages 1, 4"):
        read_hocr(path, on_empty_page="raise")


def test_text_outside_of_lines_is_reported(tmp_path, caplog):
    body = "<p class='ocr_par'>lost text</p><span class='ocrx_word' title='bbox 1 1 2 2'>a</span>"
    assert read_hocr(write(tmp_path, page(body))).words == ["a"]
    assert "has 2 words outside of all lines on page 1" in warnings(caplog)[0]


WORD = "<span class='ocrx_word' title='bbox 1 1 2 2'>a</span>"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "<html><body><p>Hello</p></body></html>",
            r"page\.hocr is not an hOCR file \(it has no element of class ocr_p",
        ),
        ("just text", r"page\.hocr is not an hOCR file"),
        (page(""), r"page\.hocr has no words on any of its 1 page;"),
        (page("<p class='ocr_par' title='bbox 0 0 9 9'>text</p>"), "has text on its 1 page, but marks no words"),
        (page("\n<b class='ocrx_word'>lonely</b>"), r"Line 2 of .*page\.hocr has the text 'lonely' without a box"),
        (
            page("\n<b class='ocrx_word' title='bbox 9 1 2 2'>a</b>"),
            r"\(9, 1, 2, 2\) of 'a' in line 2 .*swapped corners",
        ),
        (page("\n\n<b class='ocrx_word' title='bbox 1 2 3'>a</b>"), r"bbox in line 3 of .*is not four numbers"),
        (page("<b class='ocrx_word' title='bbox 1 2 nan 3'>a</b>"), "is not four numbers"),
        (page("<b class='ocrx_word' title='bbox 1 2 1e999 3'>a</b>"), "is not finite"),
        (page("<span class='ocr_line' title='bbox 9 9 1 1'>a b</span>"), "has swapped corners"),
        (page(WORD, "bbox 0 0 0 50"), "page in line 1 of .* is 0 wide and 50 high"),
        (f"<html><body>\n{WORD}</body></html>", r"word in line 2 of .*stands on no page"),
        (page("<b class='ocrx_word' title='bbox 2000 20 2100 30'>a</b>" * 3), "lie outside of it; its size and boxes"),
        (TESSERACT[: TESSERACT.index("Seite") + 3], r"page\.hocr breaks off in line 34, within page 2"),
        (TESSERACT[: TESSERACT.index("x_wconf 91")], r"page\.hocr breaks off in line 16, within page 1"),
        ("<?xml version='1.0' encoding='klingon'?>" + page(WORD), "names the encoding 'klingon', which is unknown"),
    ],
)
def test_faulty_files_are_refused_with_a_sentence(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as error:
        read_hocr(write(tmp_path, text))
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def test_file_against_its_declared_encoding_is_refused(tmp_path):
    text = '<?xml version="1.0" encoding="UTF-8"?>\n' + page(
        "\n<span class='ocrx_word' title='bbox 1 1 2 2'>Größe</span>"
    )
    with pytest.raises(InputError, match=r"Line 3 of .*page\.hocr is not in the file's encoding, UTF-8"):
        read_hocr(write(tmp_path, text, encoding="latin-1"))


def test_missing_end_is_reported(tmp_path, caplog):
    text = TESSERACT[: TESSERACT.index(" </body>")]
    assert len(read_hocr(write(tmp_path, text))) == 4
    assert "has no </html> at its end" in warnings(caplog)[0]


# Real files: counted anew, by regular expressions instead of a parser.


def hocr_folder():
    folder = os.environ.get("BROADSHEET_DATA")
    return Path(folder) / "ocr-benchmark-hocr" if folder else None


@pytest.mark.data
@pytest.mark.skipif(hocr_folder() is None, reason="BROADSHEET_DATA is not set")
def test_real_pages_are_read_whole(caplog):
    paths = sorted(hocr_folder().rglob("*.hocr"))
    assert len(paths) == 65
    num_words = 0
    for path in paths:
        document = read_hocr(path)
        text = path.read_text(encoding="utf-8")
        boxes = re.findall(r"""class=["']ocrx_word["'][^>]*\bbbox (\d+) (\d+) (\d+) (\d+)""", text)
        lines = re.findall(r"""class=["']ocr_(?:line|header|caption|textfloat)["'][^>]*>\s*<span""", text)
        page_box = re.search(r"""class=["']ocr_page["'][^>]*\bbbox 0 0 (\d+) (\d+)""", text)
        assert document.page_sizes == [(float(page_box[1]), float(page_box[2]))]
        width, height = document.page_sizes[0]
        assert len(document) == len(boxes) == len(document.segment_ids)
        expected = [
            [min(max(float(edge), 0), limit) for edge, limit in zip(box, (width, height) * 2, strict=True)]
            for box in boxes
        ]
        assert document.boxes == expected
        assert len(set(document.segment_ids)) == len(lines)
        num_words += len(document)
    assert num_words == 25_591
    assert not [message for message in warnings(caplog) if "estimated" in message or "outside" in message]


@pytest.mark.data
@pytest.mark.skipif(hocr_folder() is None, reason="BROADSHEET_DATA is not set")
def test_real_words_have_their_letters():
    path = hocr_folder() / "results" / "tesseractjs_lstm" / "filing_01.hocr"
    words = read_hocr(path).words
    assert words[:7] == ["Case", "1:13-cv-01317-TWT-ECS", "Document", "1", "Filed", "04/22/13", "Page"]
