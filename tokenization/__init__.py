"""
Portable input code: processors and the geometry they share.

- `processing_layout`, `processing_<model>`: what users call; `document_input` and `input_checks` read and check.
- `word_tokenization`, `windows`, `layout_window`: words to sub-words, sub-words to windows.
- `boxes`: ranges, integer grids, boxes of sub-words.
- `collation`, `layout_batch`: windows to padded batches.
- `merging`, `tagging`, `answer_spans`: predictions back to words, entities and answers.
"""
