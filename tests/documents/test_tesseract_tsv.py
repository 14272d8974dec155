"""Tables of Tesseract, made here."""

import logging

import pytest

from broadsheet.documents import InputError, read_document, read_tesseract_tsv

HEADER = ["level", "page_num", "block_num", "par_num", "line_num", "word_num"]
HEADER += ["left", "top", "width", "height", "conf", "text"]
ROWS = [
    (1, 1, 0, 0, 0, 0, 0, 0, 200, 300, -1, ""),
    (2, 1, 1, 0, 0, 0, 10, 10, 140, 50, -1, ""),
    (3, 1, 1, 1, 0, 0, 10, 10, 140, 50, -1, ""),
    (4, 1, 1, 1, 1, 0, 10, 10, 140, 20, -1, ""),
    (5, 1, 1, 1, 1, 1, 10, 10, 50, 20, 96.06, "\"Smith's"),
    (5, 1, 1, 1, 1, 2, 70, 12, 80, 18, 91, '5"'),
    (4, 1, 1, 1, 2, 0, 10, 40, 20, 20, -1, ""),
    (5, 1, 1, 1, 2, 1, 10, 40, 20, 20, 90.5, "no,"),
    (2, 1, 2, 0, 0, 0, 0, 100, 200, 100, -1, ""),
    (3, 1, 2, 1, 0, 0, 0, 100, 200, 100, -1, ""),
    (4, 1, 2, 1, 1, 0, 0, 100, 200, 100, -1, ""),
    (5, 1, 2, 1, 1, 1, 0, 100, 200, 100, 95, " "),
    (1, 2, 0, 0, 0, 0, 0, 0, 300, 200, -1, ""),
    (1, 3, 0, 0, 0, 0, 0, 0, 300, 400, -1, ""),
    (5, 3, 1, 1, 1, 1, 10, 40, 20, 20, 90.5, "naïve"),
]


def table(rows=ROWS, header=HEADER, end="\n"):
    return end.join("\t".join(map(str, row)) for row in [header, *rows]) + end


def write(folder, text, name="page.tsv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def changed(row, column, value):
    rows = [list(cells) for cells in ROWS]
    rows[row][HEADER.index(column)] = value
    return table(rows)


def test_words_boxes_pages_and_lines(tmp_path, caplog):
    path = write(tmp_path, table())
    document = read_document(path)
    assert document.words == ["\"Smith's", '5"', "no,", "naïve"]
    assert document.boxes == [[10, 10, 60, 30], [70, 12, 150, 30], [10, 40, 30, 60], [10, 40, 30, 60]]
    assert document.page_ids == [0, 0, 0, 2]
    assert document.page_sizes == [(200, 300), (300, 200), (300, 400)]
    assert document.segment_ids == [0, 0, 1, 2]
    assert document.source == str(path)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        f"{path} has no words on page 2 of 3; if there is text to be seen, run the OCR again."
    ]
    with pytest.raises(InputError, match="has no words on page 2"):
        read_tesseract_tsv(path, on_empty_page="raise")


def stripped(text):
    """As an editor leaves it that strips white space at the end of lines."""
    return "\n".join(line.rstrip() for line in text.split("\n"))


def reordered(text):
    return "\n".join("\t".join(reversed(line.split("\t"))) if line else "" for line in text.split("\n"))


@pytest.mark.parametrize(
    "text",
    [table(end="\r\n"), "\ufeff" + table(), table() + "\n\n", stripped(table()), reordered(table())],
    ids=["Windows line ends", "byte order mark", "empty lines", "stripped", "other order of columns"],
)
def test_tables_that_went_through_other_programs(tmp_path, text):
    expected = read_tesseract_tsv(write(tmp_path, table()))
    assert read_tesseract_tsv(write(tmp_path, text)) == expected


def test_odd_line_separators_in_words_are_no_row_ends(tmp_path):
    assert read_tesseract_tsv(write(tmp_path, changed(4, "text", "a\x0cb"))).words[:3] == ["a", "b", '5"']


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello\nworld\n", r"Line 1 of .*page\.tsv is not the header of a Tesseract table"),
        (table()[table().index("\n") + 1 :], "Line 1 of .* is not the header"),
        (table().replace("\t", ","), "Line 1 of .* is not the header"),
        (table(header=HEADER[:-1] + ["word"]), r"page\.tsv has no column text; write it with `tesseract"),
        (table(rows=[]), r"page\.tsv has no pages"),
        (table(rows=ROWS[:4]), r"page\.tsv has no words on any of its 1 page"),
        (table(rows=ROWS[4:]), r"Line 2 of .*page\.tsv is on page 1, which no row of level 1 begins"),
        (changed(4, "left", "ten"), r"left in line 6 of .*page\.tsv is 'ten', not a number; correct the row"),
        (changed(4, "width", -4), r"The box \(10, 10, 6, 30\) of .* in line 6 of .* has swapped corners"),
        (changed(4, "width", "inf"), "in line 6 of .* is not finite"),
        (changed(0, "width", 0), "Line 2 of .* gives page 1 the size 0 x 300"),
        (changed(12, "page_num", 1), "Line 14 of .* begins page 1 after page 1; sort the table by pages"),
        (table(rows=ROWS[:8] + ROWS[:1]), "Line 10 of .* begins page 1 after page 1"),
        (table()[:-12], r"page\.tsv breaks off in line 16"),
        (table()[:-25], r"Line 16 of .*page\.tsv breaks off after 6 of the table's columns"),
        (table() + table(), "level in line 17 of .* is 'level', not a number"),
    ],
)
def test_faulty_files_are_refused_with_a_sentence(tmp_path, text, message):
    with pytest.raises(InputError, match=message) as error:
        read_tesseract_tsv(write(tmp_path, text))
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)
