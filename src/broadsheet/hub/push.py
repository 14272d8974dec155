"""Push a saved model, processor, tokenizer or dataset to the Hub."""

import dataclasses
from pathlib import Path
from typing import Any

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi

from broadsheet.hub.card import check_card, finished_card
from broadsheet.hub.code import code_files, configs_with_code, member_of
from broadsheet.hub.contents import WEIGHTS, read_contents
from broadsheet.hub.dataset_card import dataset_card
from broadsheet.hub.errors import hub_sentence
from broadsheet.tokenization.input_checks import InputError


@dataclasses.dataclass(frozen=True)
class Pushed:
    """
    What a push did.

    Attributes:
        url: the repository's page.
        kind: "model", "processor", "tokenizer" or "dataset".
        files: the names of the files sent.
        left_out: the names of those that stayed.
    """

    url: str
    kind: str
    files: list[str]
    left_out: list[str]


def push(
    folder: str | Path,
    repo: str,
    with_code: bool = False,
    private: bool | None = None,
    revision: str | None = None,
    message: str | None = None,
    token: str | None = None,
    api: HfApi | None = None,
) -> Pushed:
    """
    Make the repository if there is none, and send a folder to it.

    Models go with processor, tokenizer, results and card; a card is written where the folder has none. All arrives in
    one commit: an upload that breaks off leaves the repository as it was. Weights that stand there under other names
    are removed by the same commit. Only a dataset takes several commits, of which the first brings the card.

    Args:
        folder: what `save_pretrained`, `Dataset.save_to_disk` or a training run wrote.
        repo: USER/NAME.
        with_code: send the model's code too, so that it loads with `trust_remote_code=True` where broadsheet is not
            installed. Without it no code is sent, and none is named in the configs.
        private: make a new repository private.
        revision: the branch; main when None.
        message: of the commit.
        token: a token that may write; the one logged in with when None.
        api: another connection to the Hub.

    Raises:
        InputError: for a folder that cannot be pushed, before anything is sent; and for the Hub's refusals.
    """
    folder = Path(folder)
    contents = read_contents(folder)
    api = api or HfApi(token=token)
    if contents.kind == "dataset":
        if with_code:
            raise InputError(f"{folder} is a dataset, which needs no code; push it without --with-code.")
        return _push_dataset(folder, repo, private, revision, message, token, api)
    sent: dict[str, Any] = {path.name: str(path) for path in contents.files}
    member = member_of(folder) if with_code and contents.kind != "tokenizer" else None
    if member is not None:
        sent |= {path.name: str(path) for path in code_files(member)}
    sent |= {name: text.encode() for name, text in configs_with_code(folder, member).items()}
    if contents.kind == "model" or "README.md" in sent:
        sent["README.md"] = finished_card(folder, repo, member is not None).encode()
    message = message or f"Upload a {contents.kind}"
    try:
        url = _make_repository(repo, "model", private, revision, api)
        operations: list[Any] = [CommitOperationAdd(name, content) for name, content in sent.items()]
        if contents.kind == "model":
            there = api.list_repo_files(repo, revision=revision)
            old = [name for name in there if WEIGHTS.fullmatch(name) and name not in sent]
            operations += [CommitOperationDelete(name) for name in old]
        api.create_commit(repo, operations, commit_message=message, revision=revision)
    except Exception as error:  # huggingface_hub and httpx raise nearly everything
        sentence = hub_sentence(error, repo, uploading=True)
        if sentence is None:
            raise
        raise InputError(sentence) from error
    return Pushed(url, contents.kind, sorted(sent), contents.left_out)


def _make_repository(repo: str, kind: str, private: bool | None, revision: str | None, api: HfApi) -> str:
    """The page of the repository, made with its branch where there is none; a pull request's is there already."""
    url = api.create_repo(repo, repo_type=kind, private=private, exist_ok=True).url
    if revision is not None and not revision.startswith("refs/pr/"):
        api.create_branch(repo, branch=revision, repo_type=kind, exist_ok=True)
    return str(url)


def _push_dataset(
    folder: Path,
    repo: str,
    private: bool | None,
    revision: str | None,
    message: str | None,
    token: str | None,
    api: HfApi,
) -> Pushed:
    """`datasets` writes the Parquet files, and the features into the card that is there: in later commits."""
    from datasets import load_from_disk

    dataset = load_from_disk(str(folder))
    path = folder / "README.md"
    card = path.read_text(encoding="utf-8") if path.is_file() else dataset_card(dataset, repo)
    check_card(card, str(path))
    try:
        url = _make_repository(repo, "dataset", private, revision, api)
        api.upload_file(
            path_or_fileobj=card.encode(),
            path_in_repo="README.md",
            repo_id=repo,
            repo_type="dataset",
            revision=revision,
            commit_message="Upload the card",
        )
        dataset.push_to_hub(repo, private=private, token=token, revision=revision, commit_message=message)
    except Exception as error:
        sentence = hub_sentence(error, repo, uploading=True, at_once=False)
        if sentence is None:
            raise
        raise InputError(sentence) from error
    names = list(dataset) if hasattr(dataset, "keys") else ["train"]
    return Pushed(url, "dataset", [f"split {name}" for name in names], [])
