"""PDF files made on the spot, whose words stand at known places."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pypdfium2 as pdfium
from reportlab.lib.pdfencrypt import StandardEncryption
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

PAGE = (612.0, 792.0)


@dataclass
class Text:
    """A string whose baseline starts at (x, y) from the lower left corner, turned counter-clockwise by `angle`."""

    text: str
    x: float
    y: float
    size: float = 12.0
    font: str = "Helvetica"
    angle: float = 0.0
    char_space: float = 0.0

    def span(self, word: str) -> tuple[float, float]:
        """Where `word` begins and ends along the baseline, counted from the string's start, in points."""
        start = self.text.index(word)
        return (
            stringWidth(self.text[:start], self.font, self.size),
            stringWidth(self.text[: start + len(word)], self.font, self.size),
        )


def make_pdf(
    path: Path,
    pages: Sequence[Sequence[Text]],
    page_size: tuple[float, float] = PAGE,
    rotate: int = 0,
    crop_box: tuple[float, float, float, float] | None = None,
    media_box: tuple[float, float, float, float] | None = None,
    password: str | None = None,
) -> Path:
    """Draw the texts of each page; boxes are (left, bottom, right, top), `rotate` is the pages' /Rotate."""
    encryption = StandardEncryption(password, canPrint=0) if password else None
    canvas = Canvas(str(path), pagesize=page_size, encrypt=encryption, invariant=True)
    for texts in pages:
        for text in texts:
            canvas.saveState()
            canvas.translate(text.x, text.y)
            canvas.rotate(text.angle)
            canvas.setFont(text.font, text.size)
            canvas.drawString(0, 0, text.text, charSpace=text.char_space or None)
            canvas.restoreState()
        canvas.showPage()
    canvas.save()
    if rotate or crop_box or media_box:  # set by PDFium: reportlab would turn the page's size along
        pdf = pdfium.PdfDocument(path.read_bytes())
        for page in pdf:
            page.set_rotation(rotate)
            if media_box:
                page.set_mediabox(*media_box)
            if crop_box:
                page.set_cropbox(*crop_box)
        pdf.save(path)
        pdf.close()
    return path


def make_letter(path: Path, num_pages: int = 1) -> Path:
    """A short letter, for tests that only need some document."""
    lines = (
        "Dear Ms Whitcombe,",
        "please find enclosed the invoice 2024-117",
        "over 1,250.00 EUR, due on 3 May 2024.",
    )
    texts = [
        [Text(f"Page {page + 1}", 480, 740, 9)] + [Text(line, 72, 700 - 16 * row) for row, line in enumerate(lines)]
        for page in range(num_pages)
    ]
    return make_pdf(path, texts)
