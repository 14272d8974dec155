import pytest

from broadsheet.tokenization.input_checks import InputError
from broadsheet.training.arguments import (
    DataArguments,
    FamilyTrainingArguments,
    ModelArguments,
    RunArguments,
    TokenizerArguments,
    parse,
    parse_settings,
    recorded_options,
)

KINDS = [RunArguments, DataArguments, ModelArguments, FamilyTrainingArguments]


def read(*argv):
    return parse(KINDS, [*argv, "--output_dir", "out"], "finetune", "")


def test_flags_win_over_the_recipe(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(
        "dataset: funsd\nlearning_rate: 5e-5\nmax_steps: 7\nuse_cpu: true\nbox_level: segment\n"
        "config_overrides: {hidden_size: 64, skim_input: layout}\n"
    )
    run, data, model, training = read(str(recipe), "--max_steps", "3")
    assert training.learning_rate == 5e-5
    assert training.max_steps == 3
    assert training.use_cpu is True
    assert (data.dataset, data.box_level, data.stride) == ("funsd", "segment", 64)
    assert parse_settings(model.config_overrides, "config_overrides") == {"hidden_size": 64, "skim_input": "layout"}
    assert run.task == "token_classification"


def test_shipped_recipe_by_name():
    _, data, model, training = read("funsd_skimformer_scratch", "--use_cpu")
    assert (data.dataset, model.model_type) == ("funsd", "skimformer")
    assert training.learning_rate == pytest.approx(training.learning_rate)
    assert parse_settings(model.config_overrides, "config_overrides")["hidden_size"] == 128


def test_settings_of_all_kinds():
    settings = parse_settings("a=1,b=0.5,c=true,d=none,e=layout, f = 1e-3", "x")
    assert settings == {"a": 1, "b": 0.5, "c": True, "d": None, "e": "layout", "f": 1e-3}
    assert parse_settings(None, "x") == {}
    passwords = parse_settings("password=1234,pdf_folder.password=1e5,min_words=7", "x")
    assert passwords == {"password": "1234", "pdf_folder.password": "1e5", "min_words": 7}
    for text in ("password=1234,min_words=7", '{"pdf_folder.password": "1e5", "min_words": 7}'):
        assert recorded_options(text) == {"min_words": 7}
    assert recorded_options(None) == {}
    with pytest.raises(InputError, match="--x has the entry 'b'"):
        parse_settings("a=1,b", "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learning_rat: 1", "unknown setting 'learning_rat'; did you mean learning_rate"),
        ("box_level: line", "sets box_level to 'line'; choose one of word, segment"),
        ("- a\n- b", "not a mapping"),
        ("a: [", "not valid YAML"),
    ],
)
def test_bad_recipes(tmp_path, text, message):
    (tmp_path / "r.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read(str(tmp_path / "r.yaml"))


def test_bad_flags():
    with pytest.raises(InputError, match="no recipe nowhere.yaml; .*funsd_skimformer_scratch"):
        read("nowhere.yaml")
    with pytest.raises(InputError, match="save and eval strategy"):
        read("--save_strategy", "steps", "--eval_strategy", "epoch")
    with pytest.raises(InputError, match="no setting --learning_rat; did you mean --learning_rate"):
        read("--learning_rat=1e-4")


def test_help_names_every_setting(capsys):
    for kinds, names in ((KINDS, ("--box_level", "--config_overrides")), ([TokenizerArguments], ("--lowercase",))):
        with pytest.raises(SystemExit):
            parse(kinds, ["--help"], "program", "What it does.")
        text = capsys.readouterr().out
        assert "What it does." in text
        assert all(name in text for name in names)
