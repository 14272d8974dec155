"""What all readers of OCR files share: sharing boxes, and refusing files that are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadsheet.documents import InputError, read_alto, read_hocr, read_tesseract_tsv
from broadsheet.documents.document_builder import name_pages, share_box

words = st.lists(st.text("abcdefgh", min_size=1, max_size=8), min_size=1, max_size=12)


@given(words, st.floats(0, 500), st.floats(0, 500), st.floats(0, 300), st.floats(0, 300))
def test_shares_lie_in_order_within_the_box(texts, x, y, width, height):
    x0, y0, x1, y1 = x, y, x + width, y + height
    shares = share_box(texts, (x0, y0, x1, y1))
    assert len(shares) == len(texts)
    along = 1 if any((share[1], share[3]) != (y0, y1) for share in shares) else 0
    assert shares[0][along] == pytest.approx((x0, y0)[along])
    assert shares[-1][along + 2] == pytest.approx((x1, y1)[along])
    num_places = sum(map(len, texts)) + len(texts) - 1
    for text, share, after in zip(texts, shares, [*shares[1:], None], strict=True):
        extent = (width, height)[along]
        assert share[along + 2] - share[along] == pytest.approx(extent * len(text) / num_places, abs=1e-6)
        if after is not None:
            assert after[along] - share[along + 2] == pytest.approx(extent / num_places, abs=1e-6)


@pytest.mark.parametrize(
    ("reader", "what"),
    [(read_hocr, "one hOCR file"), (read_alto, "one ALTO file"), (read_tesseract_tsv, "one TSV file")],
)
def test_files_that_are_none_are_refused(tmp_path, reader, what):
    with pytest.raises(InputError, match=r"There is no file .*gone; check the path\."):
        reader(tmp_path / "gone")
    with pytest.raises(InputError, match=f"is a folder; pass the path of {what}"):
        reader(tmp_path)
    (tmp_path / "empty").write_bytes(b" \n")
    with pytest.raises(InputError, match="empty is empty; get a fresh copy"):
        reader(tmp_path / "empty")
    (tmp_path / "binary").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(InputError, match=r"binary is (not a text file|broken XML)"):
        reader(tmp_path / "binary")
    (tmp_path / "text").write_text("text")
    with pytest.raises(InputError, match="on_empty_page is 'skip'"):
        reader(tmp_path / "text", on_empty_page="skip")


def test_long_lists_of_pages_are_cut_short():
    assert name_pages([3]) == "page 3"
    assert name_pages([3, 5]) == "pages 3, 5"
    assert name_pages(list(range(1, 31))) == "pages 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 20 more"
