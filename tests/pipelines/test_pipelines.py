from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tests.hub.models import save, tiny
from tests.pdfs import Text, make_letter, make_pdf
from transformers import pipeline

from broadsheet.documents import Document, read_pdf
from broadsheet.extraction import FieldExtractor
from broadsheet.modeling.viterbi import WordDecoder, is_bioes
from broadsheet.pipelines.inputs import as_document
from broadsheet.registration import MODELS
from broadsheet.tokenization.input_checks import InputError

TAG, ASK, SUM = "document-token-classification", "document-extractive-qa", "document-summarization"
ENCODERS = [name for name in MODELS if name != "pyramidion"]
# Fewer tokens than the tiny models have positions, and several windows for each page.
WINDOW = {"max_length": 16, "stride": 4}


@pytest.fixture
def letters(tmp_path: Path) -> list[Path]:
    return [make_letter(tmp_path / f"letter-{pages}.pdf", num_pages=pages) for pages in (2, 1, 3)]


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("tagger")
    save("skimformer", "ForTokenClassification", folder)
    return pipeline(TAG, model=str(folder), device="cpu", **WINDOW)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("reader")
    save("skimformer", "ForQuestionAnswering", folder)
    return pipeline(ASK, model=str(folder), device="cpu", max_length=24, stride=4)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("writer")
    save("pyramidion", "ForConditionalGeneration", folder)
    return pipeline(SUM, model=str(folder), device="cpu", max_new_tokens=6)


def near(found: Any, expected: Any) -> bool:
    """Equal, numbers within rounding."""
    if isinstance(expected, dict):
        return found.keys() == expected.keys() and all(near(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(near, found, expected))
    return found == pytest.approx(expected, abs=1e-5) if isinstance(expected, float) else found == expected


def by_hand(model: Any, processor: Any, document: Document) -> Any:
    """What the pipeline comes to, with all windows in one batch."""
    batch = processor(
        documents=document,
        truncation=True,
        padding=True,
        return_overflowing_tokens=True,
        return_word_ids=True,
        clip_boxes=True,
        return_tensors="pt",
        **WINDOW,
    )
    with torch.no_grad():
        outputs = model(**batch.model_inputs)
    id2label = model.config.id2label
    decode = WordDecoder(id2label) if is_bioes(list(id2label.values())) else None
    return processor.post_process_token_classification(outputs, batch, document, id2label, decode=decode)[0]


def test_extractor_is_the_pipeline_with_all_words(letters: list[Path], tmp_path: Path) -> None:
    model, processor = save("skimformer", "ForTokenClassification", tmp_path / "model")
    extractor = FieldExtractor(model, processor, device="cpu", batch_size=3, **WINDOW)
    documents = [read_pdf(path) for path in letters]
    read: list[int] = []

    def reading() -> Iterator[Document]:
        for place, document in enumerate(documents):
            read.append(place)
            yield document

    stream = extractor.map(reading())
    first = next(stream)
    assert read[-1] < len(documents) - 1
    for (document, result), same in zip([first, *stream], documents, strict=True):
        assert document is same
        expected = by_hand(model, processor, document)
        assert result.labels == expected.labels == extractor(document).labels
        assert result.scores == pytest.approx(expected.scores, abs=1e-5)
        assert [entity.word_ids for entity in result.entities] == [entity.word_ids for entity in expected.entities]


def test_labels_in_bioes_are_a_legal_sequence(letters: list[Path]) -> None:
    model, processor = tiny("skimformer", "ForTokenClassification")
    names = ["O", *(f"{mark}-{kind}" for kind in ("total", "date") for mark in "BIES")]
    config = type(model.config)(**{**model.config.to_dict(), "id2label": dict(enumerate(names))})
    model = type(model)(config).eval()
    torch.nn.init.normal_(model.classifier.weight, std=2.0)
    found = FieldExtractor(model, processor, device="cpu", **WINDOW)(read_pdf(letters[0]))
    assert found.labels == by_hand(model, processor, read_pdf(letters[0])).labels
    assert len(set(found.labels)) > 3
    for before, after in pairwise(["O", *found.labels, "O"]):
        inside, kind = before[0] in "BI", before[2:]
        assert after in (f"I-{kind}", f"E-{kind}") if inside else after[0] in "OBS"
    entities = pipeline(TAG, model=model, processor=processor, device="cpu", **WINDOW)(letters[0])
    assert [entity["words"] for entity in entities] == [entity.word_ids for entity in found.entities]


@pytest.mark.parametrize("model_type", ENCODERS)
def test_windows_of_documents_share_batches_and_change_nothing(
    model_type: str, letters: list[Path], tmp_path: Path
) -> None:
    model, processor = save(model_type, "ForTokenClassification", tmp_path / "model")
    tagger = pipeline(TAG, model=model, processor=processor, device="cpu", batch_size=5, **WINDOW)
    results = tagger(letters)
    for path, entities in zip(letters, results, strict=True):
        expected = by_hand(model, processor, read_pdf(path)).entities
        assert [entity["words"] for entity in entities] == [entity.word_ids for entity in expected]
        for entity, other in zip(entities, expected, strict=True):
            assert entity["label"] == other.label
            assert entity["text"] == other.text
            assert entity["page"] == other.page
            assert entity["boxes"] == other.boxes
            assert entity["score"] == pytest.approx(other.score, abs=1e-5)
    assert any(results)


def test_every_form_of_a_document(tagger: Any, letters: list[Path]) -> None:
    document = read_pdf(letters[0])
    bare = {"words": document.words, "boxes": document.boxes, "page_ids": document.page_ids}
    forms = [str(letters[0]), letters[0], document, document.to_dict(), {**bare, "page_sizes": document.page_sizes}]
    forms.append({"text": document.words, **document.to_dict(), "words": document.words})
    expected = tagger(forms[0])
    assert expected
    for form in forms[1:]:
        assert near(tagger(form), expected)
    assert near(tagger(forms), [expected] * len(forms))


def test_boxes_surround_words_of_the_page(tagger: Any, letters: list[Path]) -> None:
    document = read_pdf(letters[2])
    for entity in tagger(document):
        boxes = [document.boxes[word] for word in entity["words"] if document.page_ids[word] == entity["page"]]
        assert entity["box"] == [f(box[i] for box in boxes) for i, f in enumerate((min, min, max, max))]
        assert entity["text"] == " ".join(document.words[word] for word in entity["words"])


def test_streams_no_further_ahead_than_a_batch(tagger: Any, letters: list[Path]) -> None:
    read: list[Path] = []

    def files() -> Iterator[Path]:
        for path in letters * 4:
            read.append(path)
            yield path

    results = tagger(files(), batch_size=4)
    first = next(results)
    assert len(read) <= 3
    assert near(first, tagger(letters[0]))
    assert len(list(results)) == 11


def test_a_broken_file_stops_or_is_passed(tagger: Any, letters: list[Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.4 nothing")
    with pytest.raises(InputError, match="broken.pdf"):
        tagger([letters[0], broken, letters[1]])
    results = tagger([letters[0], broken, letters[1]], on_error="return", batch_size=64)
    assert results[1]["source"] == str(broken)
    assert "broken.pdf" in results[1]["error"]
    assert near([results[0], results[2]], tagger([letters[0], letters[1]]))


def test_scores_below_are_left_out(tagger: Any, letters: list[Path]) -> None:
    entities = tagger(letters[0])
    middle = sorted(entity["score"] for entity in entities)[len(entities) // 2]
    chosen = tagger(letters[0], min_score=middle)
    assert 0 < len(chosen) < len(entities)
    assert all(entity["score"] >= middle - 1e-6 for entity in chosen)


def test_images_are_read(tagger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def read(image: Image.Image, languages: str) -> Document:
        seen.append((image, languages))
        return Document(["Total"], [[1, 1, 9, 9]], [0], [(40, 30)])

    monkeypatch.setattr("broadsheet.pipelines.inputs.read_image", read)
    image = Image.new("RGB", (40, 30))
    as_document(image, languages="deu")
    assert seen == [(image, "deu")]
    assert isinstance(tagger(image), list)


def test_columns_of_documents_are_not_one_document(tagger: Any, reader: Any, writer: Any, letters: list[Path]) -> None:
    rows = [read_pdf(path).to_dict() for path in letters]
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    extractor = FieldExtractor(tagger.model, tagger.processor, device="cpu", **WINDOW)
    for read in (tagger, writer, extractor, lambda given: reader(question="Who?", document=given)):
        with pytest.raises(InputError, match="for each of 3 documents is not one document; pass a list with a dict"):
            read(columns)
    with pytest.raises(InputError, match="for each of 1 documents"):
        as_document({"text": [rows[0]["words"]], "boxes": [rows[0]["boxes"]]})
    assert len(tagger(rows)) == 3


def test_a_failed_question_names_its_file(reader: Any) -> None:
    (failed,) = reader([{"question": "Who?", "document": "missing.pdf"}], on_error="return")
    assert failed["source"] == "missing.pdf"


def test_bad_input(tagger: Any, reader: Any, letters: list[Path]) -> None:
    with pytest.raises(InputError, match="int is no document"):
        tagger(3)
    with pytest.raises(InputError, match="no document"):
        tagger({"page_ids": [0]})
    with pytest.raises(InputError, match="no option 'top_k'.*stride"):
        tagger(letters[0], top_k=3)
    with pytest.raises(InputError, match="on_error"):
        tagger(letters[0], on_error="ignore")
    with pytest.raises(InputError, match="no question"):
        reader({"document": letters[0]})
    with pytest.raises(InputError, match="no document"):
        tagger()


def test_answers_are_words_of_the_document(reader: Any, letters: list[Path]) -> None:
    document = read_pdf(letters[2])
    answers = reader(question="When is it due?", document=letters[2], n_best=3, max_answer_words=4)
    assert len(answers) == 3
    assert [answer["score"] for answer in answers] == sorted((answer["score"] for answer in answers), reverse=True)
    for answer in answers:
        assert answer["answer"] == " ".join(document.words[word] for word in answer["words"])
        assert len(answer["words"]) <= 4
        assert answer["page"] == document.page_ids[answer["words"][0]]


def test_answers_are_the_processors(reader: Any, letters: list[Path]) -> None:
    document, question = read_pdf(letters[1]), "How much?"
    processor, model = reader.processor, reader.model
    settings = {"truncation": True, "max_length": 24, "stride": 4, "padding": True, "return_tensors": "pt"}
    batch = processor(
        text=question, documents=document, return_overflowing_tokens=True, return_word_ids=True, **settings
    )
    with torch.no_grad():
        outputs = model(**batch.model_inputs)
    expected = processor.post_process_question_answering(outputs, batch, document)[0][0]
    pairs = [{"question": question, "document": document}, {"question": "Who?", "document": letters[0]}]
    (first, *_), other = reader([*pairs])
    assert first["words"] == expected.word_ids
    assert first["score"] == pytest.approx(expected.score, abs=1e-5)
    assert near(reader({"question": question, **document.to_dict()}), [first])
    assert near(reader(question="Who?", document=letters[0]), other)


def test_summaries_are_what_generate_writes(writer: Any, letters: list[Path]) -> None:
    document = read_pdf(letters[1])
    limit = writer.model.config.max_source_length
    batch = writer.processor(documents=[document], truncation=True, max_length=limit, return_tensors="pt")
    batch.pop("bbox")
    written = writer.model.generate(**batch, max_new_tokens=6)
    expected = writer.processor.post_process_summaries(written)[0]
    results = writer(letters)
    assert results[1]["summary_text"] == expected
    assert [result["words"] for result in results] == [len(read_pdf(path)) for path in letters]
    assert all(0 < result["words_read"] < result["words"] for result in results)
    assert writer(letters[1], generate_kwargs={"max_new_tokens": 1})["summary_text"] != expected


def test_encrypted_files(tagger: Any, reader: Any, writer: Any, tmp_path: Path) -> None:
    texts = [[Text("Total amount due 78.90 EUR", 72, 700)]]
    plain = make_pdf(tmp_path / "plain.pdf", texts)
    locked = make_pdf(tmp_path / "locked.pdf", texts, password="sesame")
    for reading, given in ((tagger, {}), (reader, {"question": "How much?"}), (writer, {})):
        name = "document" if given else "inputs"
        expected = reading(**{name: plain}, **given)
        assert near(reading(**{name: locked}, password="sesame", **given), expected)
        with pytest.raises(InputError, match="locked.pdf is protected by a password"):
            reading(**{name: locked}, **given)


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_missing_device_is_one_sentence(tagger: Any, device: str) -> None:
    with pytest.raises(InputError, match=f"no device '{device}' on this machine; choose one of cpu"):
        pipeline(TAG, model=tagger.model, processor=tagger.processor, device=device)


def test_models_without_a_processor_are_refused(reader: Any) -> None:
    with pytest.raises(InputError, match="without a processor"):
        type(reader)(reader.model, tokenizer=reader.processor.tokenizer, device="cpu")
