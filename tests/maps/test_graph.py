import json

import numpy as np
import pytest
from reportlab.pdfgen import canvas
from tests.pdfs import Text, make_pdf
from tests.tokenizers import tiny_tokenizer

from broadsheet.cli import main
from broadsheet.documents import read_document
from broadsheet.maps.graph import HeadMapper, document_graph, draw_graph, draw_heads
from broadsheet.modeling.configuration_formnet import FormNetConfig
from broadsheet.modeling.modeling_formnet import FormNetForTokenClassification
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_formnet import FormNetProcessor

LINES = ["Invoice number 17", "Total amount due", "78.90 EUR in thirty days"]


@pytest.fixture
def pdf(tmp_path):
    path = tmp_path / "invoice.pdf"
    page = canvas.Canvas(str(path), pagesize=(400, 300))
    for number, line in enumerate(LINES):
        page.drawString(40, 250 - 40 * number, line)
    page.showPage()
    page.drawString(40, 250, "Second page")
    page.save()
    return path


@pytest.fixture
def model(tmp_path):
    processor = FormNetProcessor(tiny_tokenizer("wordpiece"))
    config = FormNetConfig(
        vocab_size=len(processor.tokenizer),
        hidden_size=16,
        num_hidden_layers=2,
        num_graph_layers=1,
        num_attention_heads=2,
    )
    FormNetForTokenClassification(config).save_pretrained(tmp_path / "model")
    processor.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_the_graph_as_numbers_and_picture(pdf, tmp_path, capsys):
    main_exits(["graph", str(pdf), "--json", "--picture", str(tmp_path / "graph.png")])
    told = json.loads(capsys.readouterr().out)
    document = read_document(pdf)
    graph = document_graph(document)
    assert told["edges"] == graph.edges.tolist()
    assert told["cut"] == 0
    assert len(told["neighbors"]) == len(document) == 13
    pages = np.asarray(document.page_ids)
    assert (pages[graph.edges[:, 0]] == pages[graph.edges[:, 1]]).all()
    assert (tmp_path / "graph.png").is_file()


def test_edges_are_drawn_between_the_words(pdf):
    document = read_document(pdf)
    pictures = draw_graph(document, document_graph(document))
    assert [picture.info["page"] for picture in pictures] == [0, 1]
    picture = np.asarray(pictures[1])
    scale = picture.shape[1] / document.page_sizes[1][0]
    first, second = document.boxes[-2:]
    middle = [int(scale * (first[2] + second[0]) / 2), int(scale * (first[1] + first[3]) / 2)]
    assert picture[middle[1] - 3 : middle[1] + 4, middle[0]].min(axis=0).tolist()[0] < 60  # blue, no red


def test_attention_of_a_word_per_head(pdf, model, tmp_path, capsys):
    document = read_document(pdf)
    attention = HeadMapper.from_pretrained(model)(document, 4)
    assert attention.shape == (2, 13)
    assert ((attention > 0) & (attention < 1)).all()
    assert (attention.sum(1) < 1).all()  # the global token has the rest
    assert [picture.info["head"] for picture in draw_heads(document, 4, attention)] == [0, 1]
    picture = tmp_path / "heads.png"
    main_exits(["graph", str(pdf), "--model", str(model), "--select", "amount", "--json", "--picture", str(picture)])
    told = json.loads(capsys.readouterr().out)
    assert told["word"] == 4
    np.testing.assert_allclose(told["heads"], attention, atol=1e-6)
    assert picture.is_file()


def test_heads_are_drawn_as_tints(pdf):
    """The darkest word is the one that gets most; what gets nothing stays white; each head has a page of its own."""
    document = read_document(pdf)
    attention = np.zeros((9, len(document)))
    attention[:, 0], attention[:, 1] = 0.6, 0.15
    attention[8] = np.roll(attention[8], 2)
    attention[:, -2:] = np.nan
    pictures = draw_heads(document, 4, attention)
    assert len(pictures) == 9
    first, last = np.asarray(pictures[0], dtype=int), np.asarray(pictures[8], dtype=int)
    scale = first.shape[1] / document.page_sizes[0][0]

    def darkness(picture, word):
        x0, y0, x1, y1 = (round(scale * edge) for edge in document.boxes[word])
        return 255 - picture[y0:y1, x0:x1, 1].mean()  # green, which falls all along the scale

    assert darkness(first, 0) > darkness(first, 1) + 20 > darkness(first, 5) + 40
    assert darkness(last, 2) > darkness(last, 3) + 20
    assert (first != last).any()


def test_the_attention_command_names_the_one_for_heads(pdf, model, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["attention", str(pdf), "--model", str(model), "--select", "amount"])
    assert stopped.value.code == 2
    assert "broadsheet graph FILE --model" in " ".join(capsys.readouterr().err.split())


def test_words_and_layers_that_are_not_there(pdf, model):
    document, mapper = read_document(pdf), HeadMapper.from_pretrained(model)
    with pytest.raises(InputError, match="no word 13 in a document of 13 words"):
        mapper(document, 13)
    with pytest.raises(InputError, match="no layer 2 in a model of 2 layers"):
        mapper(document, 0, layer=2)


def test_text_like_markup_and_a_password(model, tmp_path, capsys):
    locked = str(make_pdf(tmp_path / "locked.pdf", [[Text("[/x] Doe", 72, 700)]], password="sesame"))
    with pytest.raises(SystemExit) as stopped:
        main(["graph", locked])
    assert stopped.value.code == 2
    assert "--password" in capsys.readouterr().err
    main_exits(["graph", locked, "--password", "sesame", "--picture", str(tmp_path / "graph.png")])
    flags = ["--model", str(model), "--word", "0", "--picture", str(tmp_path / "heads.png")]
    main_exits(["graph", locked, "--password", "sesame", *flags])
    assert "“[/x]”" in capsys.readouterr().out
    for name in ("graph.png", "heads.png"):
        assert (tmp_path / name).is_file()


@pytest.mark.parametrize(
    "flags", [["--word", "3"], ["--model", "m"], ["--model", "m", "--word", "1", "--select", "x"]]
)
def test_a_model_and_one_word_belong_together(pdf, flags, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["graph", str(pdf), *flags])
    assert stopped.value.code == 2
    assert "a model and one word" in " ".join(capsys.readouterr().err.split())


def main_exits(argv):
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert not stopped.value.code
