"""Pages of a document under each other, for models that see several pages as one."""

import numpy as np


def stack_pages(boxes: np.ndarray, page_ids: np.ndarray, page_sizes: np.ndarray) -> tuple[np.ndarray, float, float]:
    """
    Put the pages that tokens stand on under each other, each scaled to the width of the first of them.

    Args:
        boxes: float64 `[N, 4]`, in the unit of `page_sizes`.
        page_ids: int64 `[N]`, -1 for tokens on no page, which keep their box.
        page_sizes: float64 `[pages, 2]`, (width, height).

    Returns:
        The boxes `[N, 4]` in the stack, its width and its height, in the unit of the first page. Pages between the
        first and the last that is seen are part of the stack.
    """
    seen = page_ids[page_ids >= 0]
    if len(seen) == 0:
        return boxes, 1.0, 1.0
    first, last = int(seen.min()), int(seen.max())
    sizes = page_sizes[first : last + 1]
    width = float(sizes[0, 0])
    scales = width / sizes[:, 0]
    tops = np.concatenate([[0.0], np.cumsum(sizes[:, 1] * scales)])
    place = np.where(page_ids >= 0, page_ids - first, 0)
    stacked = boxes * scales[place][:, None]
    stacked[:, [1, 3]] += tops[place][:, None]
    return np.where((page_ids >= 0)[:, None], stacked, boxes), width, float(tops[-1])
