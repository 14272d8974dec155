"""The base of the builders: files found first, cached by what they are, faults told in sentences."""

import dataclasses
import glob
import hashlib
import inspect
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import datasets

from broadsheet.dataset_scripts import schema
from broadsheet.tokenization.input_checks import InputError

logger = logging.getLogger(__name__)

_BASE_FIELDS = {field.name for field in dataclasses.fields(datasets.BuilderConfig)} | {"content"}


@dataclasses.dataclass
class DocumentConfig(datasets.BuilderConfig):
    """Options of a corpus. `content` is the digest of its files, which makes the cache follow them."""

    content: str = ""


class DocumentBuilder(datasets.GeneratorBasedBuilder):
    """
    A corpus in its official files on this machine. A subclass names its files and reads one of them into a row.

    Args:
        data_dir: the folder of the official distribution.
        cache_dir: where the prepared Arrow files go (default: the cache of `datasets`).
        options: fields of the builder's config.

    Raises:
        InputError: no such folder, no files in it, or an option that the corpus does not have.
    """

    BUILDER_CONFIG_CLASS = DocumentConfig
    EXPECTED: ClassVar[str]
    """What the folder must hold and where it comes from, to end a message with."""

    def __init__(self, data_dir: str | os.PathLike | None = None, cache_dir: str | None = None, **options: Any):
        name = type(self).__module__.rsplit(".", 1)[-1]
        known = sorted({field.name for field in dataclasses.fields(self.BUILDER_CONFIG_CLASS)} - _BASE_FIELDS)
        for option in options:
            if option not in known:
                raise InputError(
                    f"Dataset {name!r} has no option {option!r}; its options are {', '.join(known) or 'none'}."
                )
        if data_dir is None:
            raise InputError(f"Dataset {name!r} needs data_dir, {self.EXPECTED}.")
        data_dir = os.path.abspath(os.path.expanduser(os.fspath(data_dir)))
        if not os.path.isdir(data_dir):
            raise InputError(f"The folder {data_dir} does not exist; data_dir is {self.EXPECTED}.")
        self.files = {split: files for split, files in self.find_files(data_dir).items() if files}
        if not self.files:
            raise InputError(f"The folder {data_dir} holds no files of dataset {name!r}; data_dir is {self.EXPECTED}.")
        every_file = [file for files in self.files.values() for file in files] + self.companions(data_dir)
        self._recording: str | None = None
        super().__init__(
            cache_dir=cache_dir,
            data_dir=data_dir,
            hash=self._code_digest(),
            content=_content_digest(every_file),
            **options,
        )

    def find_files(self, data_dir: str) -> dict[str, list[str]]:
        """The files of each split in a fixed order, one document each."""
        raise NotImplementedError

    def companions(self, data_dir: str) -> list[str]:
        """Other files that rows depend on (page sizes, label tables), known after `find_files`."""
        return []

    def read_file(self, file: str) -> dict[str, Any] | None:
        """One file as a row of the schema; None where it is skipped on request."""
        raise NotImplementedError

    def log_totals(self, rows: int) -> None:
        """Say what was dropped or changed on the way; called after the last file of a shard."""

    def _split_generators(self, dl_manager: Any) -> list[datasets.SplitGenerator]:
        return [
            datasets.SplitGenerator(name=split, gen_kwargs={"files": files}) for split, files in self.files.items()
        ]

    def _generate_examples(self, files: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        rows = 0
        for file in files:
            row = self.read_file(file)
            if row is not None:
                schema.check_row(row)
                rows += 1
                yield row["id"], row
        self.log_totals(rows)

    def _prepare_split_single(self, *args: Any, job_id: int, **kwargs: Any) -> Iterator[Any]:
        self._recording = os.path.join(self._output_dir, f"skipped-{job_id:05d}-{kwargs['split_info'].name}.jsonl")
        try:
            yield from super()._prepare_split_single(*args, job_id=job_id, **kwargs)
        except datasets.exceptions.DatasetGenerationError as error:
            raise _input_error(error) or error from None
        finally:
            self._recording = None

    def record_skipped(self, file: str, reason: str) -> None:
        """Log a file that is left out, and note it beside the prepared data."""
        logger.warning("Skipped %s: %s", file, reason)
        if self._recording is not None:
            with open(self._recording, "a", encoding="utf-8") as report:
                report.write(json.dumps({"file": file, "reason": reason}) + "\n")

    @classmethod
    def _code_digest(cls) -> str:
        digest = hashlib.sha256()
        for path in cls.code_files():
            with open(path, "rb") as source:
                digest.update(source.read())
        return digest.hexdigest()[:16]

    @classmethod
    def code_files(cls) -> list[str]:
        """The source files that make the rows; a change in them makes the cache anew."""
        return [__file__, schema.__file__, inspect.getfile(cls)]


def skipped_files(dataset: datasets.Dataset | datasets.DatasetDict) -> list[dict[str, str]]:
    """
    The files that were left out when the dataset was prepared with `on_error="skip"`.

    Args:
        dataset: what `load_dataset` returned, not transformed since.

    Returns:
        One `{"file": path, "reason": sentence}` for each, in the order of the folder.
    """
    parts: Mapping[str, Any] = dataset if isinstance(dataset, Mapping) else {str(dataset.split): dataset}
    records = []
    for split, part in parts.items():
        for folder in {os.path.dirname(file["filename"]) for file in part.cache_files}:
            records += read_reports(folder, str(split).split("[")[0])
    return records


def read_reports(folder: str, split: str) -> list[dict[str, str]]:
    """What `record_skipped` noted beside the prepared data of a split."""
    records = []
    for report in sorted(glob.glob(os.path.join(glob.escape(folder), f"skipped-*-{split}.jsonl"))):
        with open(report, encoding="utf-8") as lines:
            records += [json.loads(line) for line in lines]
    return records


def _input_error(error: BaseException | None) -> InputError | None:
    while error is not None:
        if isinstance(error, InputError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _content_digest(files: Sequence[str]) -> str:
    # Name, size and time of change, as make has it: reading gigabytes of PDFs to find them unchanged takes minutes.
    digest = hashlib.sha256()
    for file in sorted(files):
        status = os.stat(file)
        digest.update(f"{file}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]
