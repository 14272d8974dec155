import json

import pytest
from PIL import Image
from tests.pdfs import make_letter
from tests.tokenizers import tiny_tokenizer
from typer.testing import CliRunner

from broadsheet import cli
from broadsheet.documents import read_pdf
from broadsheet.extraction import FieldExtractor
from broadsheet.modeling.configuration_skimformer import SkimformerConfig
from broadsheet.modeling.modeling_skimformer import SkimformerForTokenClassification
from broadsheet.tokenization.input_checks import InputError
from broadsheet.tokenization.processing_skimformer import SkimformerProcessor

COMMANDS = [
    "demo",
    "extract",
    "finetune",
    "evaluate",
    "pretrain",
    "attention",
    "train-tokenizer",
    "bench",
    "reproduce",
    "results",
    "push",
    "export",
    "convert",
    "convert skim-attention",
]
LABELS = {0: "O", 1: "B-name", 2: "I-name", 3: "B-date", 4: "I-date"}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tokenizer = tiny_tokenizer("wordpiece", model_max_length=40)
    config = SkimformerConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        hidden_layout_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        skim_attention_head_size=8,
        intermediate_size=16,
        id2label=LABELS,
        label2id={name: index for index, name in LABELS.items()},
    )
    SkimformerForTokenClassification(config).save_pretrained(folder)
    SkimformerProcessor(tokenizer, id2label=LABELS).save_pretrained(folder)
    return folder


@pytest.fixture
def letter(tmp_path):
    return make_letter(tmp_path / "letter.pdf", num_pages=2)


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def main(capsys, *arguments):
    """The process' exit code and standard error, as a shell sees them."""
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(argument) for argument in arguments])
    return stopped.value.code, capsys.readouterr().err


def test_json_has_every_field_with_page_boxes_and_score(model_folder, letter):
    result = run("extract", letter, "--model", model_folder, "--json")
    assert result.exit_code == 0, result.output
    read = json.loads(result.stdout)
    document = read_pdf(letter)
    expected = FieldExtractor.from_pretrained(model_folder)(document).entities
    assert read["file"] == str(letter)
    assert read["page_sizes"] == [list(size) for size in document.page_sizes]
    assert [(field["label"], field["text"], field["page"]) for field in read["fields"]] == [
        (entity.label, entity.text, entity.page + 1) for entity in expected
    ]
    assert expected
    for field in read["fields"]:
        assert len(field["boxes"]) == len(field["words"])
        assert 0 <= field["score"] <= 1


def test_table_and_picture(model_folder, letter, tmp_path):
    picture = tmp_path / "pictures" / "fields.png"
    result = run("extract", letter, "--model", model_folder, "--picture", picture)
    assert result.exit_code == 0, result.output
    assert "2 pages" in result.stdout
    assert "score" in result.stdout
    assert Image.open(picture).width > 500


def test_minimum_score(model_folder, letter):
    result = run("extract", letter, "--model", model_folder, "--min-score", 1)
    assert "no fields found" in result.stdout


def test_one_unreadable_file_does_not_stop_the_others(model_folder, letter, tmp_path):
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(letter.read_bytes()[:100])
    result = run("extract", broken, letter, "--model", model_folder, "--json")
    assert result.exit_code == 2
    assert [json.loads(line)["file"] for line in result.stdout.splitlines()] == [str(letter)]
    assert "broken.pdf" in result.stderr


def test_pictures_of_several_files_go_into_a_folder(model_folder, letter, tmp_path):
    other = make_letter(tmp_path / "other.pdf")
    result = run("extract", letter, other, "--model", model_folder, "--picture", tmp_path / "pictures")
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == ["letter.png", "other.png"]


@pytest.mark.parametrize("command", [["--model", "nowhere"], ["--model", "nowhere", "--json"]])
def test_missing_model_is_one_sentence_and_exit_code_2(letter, capsys, command):
    code, error = main(capsys, "extract", letter, *command)
    assert code == 2
    assert error.startswith("error: The model nowhere cannot be loaded")
    assert "Traceback" not in error


def test_model_without_processor(model_folder, letter, tmp_path):
    SkimformerForTokenClassification.from_pretrained(model_folder).save_pretrained(tmp_path / "bare")
    with pytest.raises(InputError, match="processor"):
        FieldExtractor.from_pretrained(tmp_path / "bare")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(command):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert len(result.output) > 200


def test_windows_do_not_change_the_words(model_folder, letter):
    document = read_pdf(letter)
    for max_length, stride, batch_size in ((None, None, 8), (10, 2, 1), (512, 0, 3)):
        extractor = FieldExtractor.from_pretrained(
            model_folder, max_length=max_length, stride=stride, batch_size=batch_size
        )
        assert len(extractor(document).labels) == len(document)


def test_map_streams(model_folder, letter):
    extractor = FieldExtractor.from_pretrained(model_folder)
    stream = extractor.map(iter([read_pdf(letter)]))
    document, result = next(stream)
    assert len(result.labels) == len(document)
