"""
The characters of a PDF page as arrays.

PDFium tells one character's code, box, matrix at a time. A Python loop over them costs ten times what PDFium itself
needs, so each function is mapped over all characters at once, writing straight into NumPy arrays.
"""

import ctypes
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

UNMAPPED = 0xFFFD  # stands for a character without a Unicode value
_NO_WIDTH = (0x200B, 0x200C, 0x200D, 0x2060, 0xFEFF)  # zero-width space, (non-)joiners, word joiner, byte order mark
_SOFT_HYPHENS = (0xAD, 0xFFFE)


@dataclass
class Characters:
    """The characters of a page in the order of its content, in PDF coordinates (points, y upwards)."""

    codes: np.ndarray  # [characters] Unicode values, UNMAPPED where the file tells none
    boxes: np.ndarray  # [characters, 4] left, bottom, right, top
    direction: np.ndarray  # [characters, 2] unit vector along the line
    up: np.ndarray  # [characters, 2] unit vector across the line, towards the top of the letters
    origins: np.ndarray  # [characters, 2] where the pen stood
    em: np.ndarray  # [characters] the font size as drawn
    objects: np.ndarray  # [characters] which piece of text, drawn at once, it belongs to (an opaque number)

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def read(cls, textpage: pdfium.PdfTextPage) -> "Characters":
        """
        Read all characters of a page.

        A character's box is as wide as its advance and as high as its font's ascent and descent, so that the words of
        one line share their upper and lower edge. Where the font tells neither, and for text at an angle other than a
        quarter turn, it is the box of the ink.
        """
        count = textpage.count_chars()
        codes = np.fromiter(_map(_get_unicode, textpage, range(count)), dtype=np.int64, count=count)
        _clean(codes, textpage)
        kept = np.flatnonzero(~np.isin(codes, _NO_WIDTH))
        indices, count = kept.tolist(), len(kept)
        ink = np.zeros((count, 4))
        _fill(_get_char_box, textpage, indices, *(_addresses(ink, column) for column in (0, 2, 1, 3)))
        loose = np.zeros((count, 4), dtype=np.float32)
        _fill(_get_loose_char_box, textpage, indices, _addresses(loose))
        matrices = np.zeros((count, 6), dtype=np.float32)
        _fill(_get_matrix, textpage, indices, _addresses(matrices))
        origins = np.zeros((count, 2))
        _fill(_get_char_origin, textpage, indices, *(_addresses(origins, column) for column in range(2)))
        sizes = np.fromiter(_map(_get_font_size, textpage, indices), dtype=np.float64, count=count)

        objects = np.array([handle or 0 for handle in _map(_get_text_object, textpage, indices)], dtype=np.int64)

        along, across = matrices[:, 0:2].astype(np.float64), matrices[:, 2:4].astype(np.float64)
        width = np.hypot(along[:, 0], along[:, 1])
        direction = np.where(width[:, None] > 0, along / np.where(width > 0, width, 1)[:, None], [1.0, 0.0])
        up = np.stack([-direction[:, 1], direction[:, 0]], axis=1)
        height = (up * across).sum(axis=1)
        mirrored = height < 0
        up[mirrored] *= -1
        em = np.abs(sizes) * np.where(np.abs(height) > 0, np.abs(height), width)
        em = np.where(em > 1e-3, em, np.maximum(ink[:, 3] - ink[:, 1], 1.0))

        boxes = ink.copy()
        _use_font_box(boxes, loose[:, [0, 3, 2, 1]].astype(np.float64), ~mirrored & (direction[:, 0] > 0.9999))
        turned = np.flatnonzero((np.abs(direction).max(axis=1) > 0.9999) & (mirrored | (direction[:, 0] < 0.9999)))
        if len(turned):
            _use_font_height(boxes, turned, objects, up, origins, em)
        return cls(codes[kept], boxes, direction, up, origins, em, objects)

    def select(self, kept: np.ndarray) -> "Characters":
        """The characters at the positions, or under the mask, `kept`."""
        arrays = (self.codes, self.boxes, self.direction, self.up, self.origins, self.em, self.objects)
        return Characters(*(array[kept] for array in arrays))


def _clean(codes: np.ndarray, textpage: pdfium.PdfTextPage) -> None:
    """
    Give hyphens and unmapped characters one code each, in place.

    PDFium reports the hyphen at the end of a broken word as 2, and characters without a Unicode value under their
    number in the font, which may be that of a control character, a line end included.
    """
    for index in np.flatnonzero(codes < 0x20).tolist():
        if codes[index] == 2 and pdfium_c.FPDFText_IsHyphen(textpage, index) == 1:
            codes[index] = ord("-")
        elif codes[index] not in (0x09, 0x0A, 0x0D) or pdfium_c.FPDFText_HasUnicodeMapError(textpage, index) == 1:
            codes[index] = UNMAPPED
    codes[np.isin(codes, _SOFT_HYPHENS)] = ord("-")
    codes[((codes >= 0xD800) & (codes < 0xE000)) | (codes > 0x10FFFF)] = UNMAPPED


def _use_font_box(boxes: np.ndarray, loose: np.ndarray, upright: np.ndarray) -> None:
    """Replace the ink boxes of upright characters by the font's where the latter make sense (some fonts tell none)."""
    for low, high in ((0, 2), (1, 3)):
        middle = (boxes[:, low] + boxes[:, high]) / 2
        usable = upright & (loose[:, high] > loose[:, low])
        usable &= (loose[:, low] <= middle) & (middle <= loose[:, high])
        boxes[usable, low], boxes[usable, high] = loose[usable, low], loose[usable, high]


def _use_font_height(
    boxes: np.ndarray, turned: np.ndarray, objects: np.ndarray, up: np.ndarray, origins: np.ndarray, em: np.ndarray
) -> None:
    """Stretch the ink boxes of characters turned by 90, 180 or 270 degrees to their font's ascent and descent."""
    heights = {text_object: _font_height(text_object) for text_object in set(objects[turned].tolist())}
    for index in turned.tolist():
        descent, ascent = heights[int(objects[index])]
        axis = int(abs(up[index, 1]) > 0.5)  # 0: the line runs vertically, its height is in x
        pen, sign = origins[index, axis], np.sign(up[index, axis])
        edges = sorted((pen + sign * descent * em[index], pen + sign * ascent * em[index]))
        if edges[0] < edges[1]:
            boxes[index, axis], boxes[index, axis + 2] = edges


def _font_height(text_object: int) -> tuple[float, float]:
    """Descent (below zero) and ascent of a text object's font, in font sizes; (0, 0) if it tells none."""
    font = pdfium_c.FPDFTextObj_GetFont(ctypes.cast(text_object, pdfium_c.FPDF_PAGEOBJECT)) if text_object else None
    if not font:
        return 0.0, 0.0
    ascent, descent = ctypes.c_float(), ctypes.c_float()
    if not pdfium_c.FPDFFont_GetAscent(font, 1.0, ascent) or not pdfium_c.FPDFFont_GetDescent(font, 1.0, descent):
        return 0.0, 0.0
    return descent.value, ascent.value


def _declare(function: Any, result: Any, *arguments: Any) -> Any:
    """The C function under a declaration of our own that takes plain addresses: pypdfium2's wants pointer objects."""
    declaration = ctypes.CFUNCTYPE(result, ctypes.c_void_p, ctypes.c_int, *arguments)
    return ctypes.cast(function, declaration)


_pointer = ctypes.c_void_p
_get_unicode = _declare(pdfium_c.FPDFText_GetUnicode, ctypes.c_uint)
_get_char_box = _declare(pdfium_c.FPDFText_GetCharBox, ctypes.c_int, _pointer, _pointer, _pointer, _pointer)
_get_loose_char_box = _declare(pdfium_c.FPDFText_GetLooseCharBox, ctypes.c_int, _pointer)
_get_matrix = _declare(pdfium_c.FPDFText_GetMatrix, ctypes.c_int, _pointer)
_get_char_origin = _declare(pdfium_c.FPDFText_GetCharOrigin, ctypes.c_int, _pointer, _pointer)
_get_font_size = _declare(pdfium_c.FPDFText_GetFontSize, ctypes.c_double)
_get_text_object = _declare(pdfium_c.FPDFText_GetTextObject, ctypes.c_void_p)


def _map(function: Any, textpage: pdfium.PdfTextPage, indices: Iterable[int], *addresses: Iterable[int]) -> Any:
    handle = ctypes.cast(textpage.raw, ctypes.c_void_p).value
    return map(function, repeat(handle), indices, *addresses)


def _fill(function: Any, textpage: pdfium.PdfTextPage, indices: Iterable[int], *addresses: Iterable[int]) -> None:
    """Call `function` for each character, for what it writes to the addresses. Where it fails, zeros stay."""
    deque(_map(function, textpage, indices, *addresses), maxlen=0)


def _addresses(array: np.ndarray, column: int = 0) -> range:
    """The memory addresses of `array[:, column]`."""
    if len(array) == 0:
        return range(0)
    first = array.ctypes.data + column * array.itemsize
    return range(first, first + len(array) * array.strides[0], array.strides[0])
