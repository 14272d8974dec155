"""`pipeline("document-extractive-qa")`: answers to questions, found in documents of any length."""

from collections.abc import Mapping
from typing import Any, ClassVar

from broadsheet.pipelines.inputs import as_document, placed
from broadsheet.pipelines.streaming import DocumentPipeline, Job
from broadsheet.tokenization.input_checks import InputError


class DocumentQuestionAnsweringPipeline(DocumentPipeline):
    """
    Answers, as words of the document.

        reader = pipeline("document-extractive-qa", model="outputs/questions")
        reader(question="Who signs?", document="contract.pdf")
        [{"answer": "Jane Doe", "score": 0.7, "page": 3, "box": [...], "boxes": [...], "words": [812, 813]}]
        reader([{"question": "Who signs?", "document": "a.pdf"}, {"question": "When?", "words": ..., "boxes": ...}])

    Answers come best first; none, where `allow_no_answer` and no window holds one. `page` counts from 0.

    Args, beside those of `DocumentPipeline`:
        n_best: at most so many answers.
        max_answer_words: no answer is longer.
        allow_no_answer: give none where "no answer" scores higher than the best.
        no_answer_threshold: by how much it has to.
    """

    finishing: ClassVar[dict[str, Any]] = {
        "n_best": 1,
        "max_answer_words": 30,
        "allow_no_answer": False,
        "no_answer_threshold": 0.0,
    }
    output_names: ClassVar[tuple[str, ...]] = ("start_logits", "end_logits")
    needs: ClassVar[str] = "post_process_question_answering"

    def single_input(self, inputs: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The input as given, or made of `question=` and `document=`."""
        named = {name: kwargs.pop(name) for name in ("question", "document") if name in kwargs}
        if named and inputs is not None:
            named.setdefault("document", inputs)
        return super().single_input(named or inputs, kwargs)

    def preprocess(self, given: Any, **settings: Any) -> Job:  # type: ignore[override]
        """Read a document, and cut it into windows with the question in each."""
        question = given.get("question") if isinstance(given, Mapping) else None
        if not isinstance(question, str) or not question.strip():
            raise InputError(
                f"There is no question in {type(given).__name__}; pass question= and document=, or dicts with both."
            )
        document = given.get("document")
        if document is None:
            document = {name: value for name, value in given.items() if name != "question"}
        read = as_document(document, settings["ocr"], settings["languages"], settings["password"])
        return self.windows_of(read, question, settings)

    def postprocess(self, model_outputs: Job, **settings: Any) -> list[dict[str, Any]]:  # type: ignore[override]
        """The answers to one question, best first."""
        job = model_outputs
        scores = tuple(job.outputs[name] for name in self.output_names)
        answers = self.processor.post_process_question_answering(scores, job.batch, job.document, **settings)[0]
        return [{"answer": answer.text, "score": answer.score, **placed(answer)} for answer in answers]
