import json
from pathlib import Path

import pytest
from PIL import Image
from tests.pdfs import Text, make_letter, make_pdf
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


def test_pictures_of_files_of_one_name_are_all_kept(model_folder, letter, tmp_path):
    files = [letter]
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        files.append(make_letter(tmp_path / folder / "letter.pdf"))
    result = run("extract", *files, letter, "--model", model_folder, "--picture", tmp_path / "pictures")
    assert result.exit_code == 0, result.output
    names = ["letter-2.png", "letter-3.png", "letter-4.png", "letter.png"]
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == names


def test_names_of_pictures():
    files = [Path(name) for name in ("a/inv.pdf", "b/INV.pdf", "inv-2.pdf", "c/inv.png", "other.tiff", "a/inv.pdf")]
    names = [path.name for path in cli.picture_files(files, Path("out"))]
    assert names == ["inv.png", "INV-3.png", "inv-2.png", "inv-4.png", "other.png", "inv-5.png"]
    assert cli.picture_files(files[:1], Path("out.pdf")) == [Path("out.pdf")]


def test_a_picture_that_cannot_be_written_is_told_before_the_model_is_loaded(letter, tmp_path, capsys):
    code, error = main(capsys, "extract", letter, "--model", "nowhere", "--picture", tmp_path / "pictures")
    assert code == 2
    assert "has the suffix ''; save pages as .png" in error
    code, error = main(capsys, "extract", letter, letter, "--model", "nowhere", "--picture", letter)
    assert code == 2
    assert "letter.pdf is a file, but there are 2 documents; name a folder as --picture." in error


def test_password(model_folder, tmp_path):
    locked = make_pdf(tmp_path / "locked.pdf", [[Text("Total amount due", 72, 700)]], password="sesame")
    for password, says in ((None, "pass it as password='...', or --password"), ("open", "does not open")):
        flags = ["--password", password] if password else []
        result = run("extract", locked, "--model", model_folder, *flags)
        assert result.exit_code == 2
        assert says in result.stderr
    picture = tmp_path / "fields.png"
    flags = ["--password", "sesame", "--picture", picture]
    result = run("extract", locked, "--model", model_folder, "--json", *flags)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["file"] == str(locked)
    assert Image.open(picture).width > 500


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
