"""What the errors of the Hub mean for the one who reads them: one sentence, with the remedy."""

from collections.abc import Iterator

from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

_HTTP = ("httpx", "httpx2", "httpcore2")
_LOG_IN = "log in with `hf auth login`, or set HF_TOKEN"


def hub_sentence(error: BaseException, repo: str, uploading: bool = False, at_once: bool = True) -> str | None:
    """
    One sentence about an error that huggingface_hub, or transformers on top of it, raised over `repo`.

    Args:
        error: the exception; its causes are searched too.
        repo: the repository's name.
        uploading: whether it came up in an upload.
        at_once: whether that upload is one commit.

    Returns:
        The sentence, None where the Hub has nothing to do with it.
    """
    chain = list(_chain(error))
    state = "the repository is as it was" if at_once else "the repository may hold a part of it"
    for each in chain:
        if (sentence := _of_answer(each, repo, uploading, state)) is not None:
            return sentence
    text = " ".join(str(each) for each in chain)
    if "does not appear to have a file named" in text and "safetensors" in text:
        return (
            f"{repo} has no model.safetensors: its upload was broken off, or it holds no model; push the model again, "
            "or convert its weights with `broadsheet convert`."
        )
    # httpx's errors of connections share no public base class with other libraries': told by their module.
    broken = [each for each in chain if type(each).__module__.split(".")[0] in _HTTP and not hasattr(each, "response")]
    broken += [each for each in chain if isinstance(each, ConnectionError | TimeoutError)]
    if broken:
        reason = str(broken[-1]) or type(broken[-1]).__name__
        if uploading:
            return (
                f"The upload to {repo} broke off ({reason}); {state}. Run the same command again: "
                "files that arrived whole are not sent twice."
            )
        return f"{repo} cannot be reached ({reason}); check the connection and run the same command again."
    return None


def _of_answer(error: BaseException, repo: str, uploading: bool, state: str) -> str | None:
    """The sentence about an error of huggingface_hub itself; `state`: what an upload leaves."""
    if isinstance(error, OfflineModeIsEnabled):
        return f"{repo} cannot be reached because offline mode is set; unset HF_HUB_OFFLINE, or name a local folder."
    if isinstance(error, LocalTokenNotFoundError):
        return f"There is no token for {repo}; {_LOG_IN}."
    if isinstance(error, HFValidationError):
        return f"{repo!r} is no name of a repository; write it as USER/NAME."
    if isinstance(error, GatedRepoError):
        return (
            f"{repo} is gated and this token has no access; ask for it on https://huggingface.co/{repo}, then "
            f"{_LOG_IN} to that account's token."
        )
    if isinstance(error, RevisionNotFoundError):
        return f"{repo} has no such revision; name a branch, a tag or a commit that it has."
    if isinstance(error, RemoteEntryNotFoundError | LocalEntryNotFoundError):
        return None
    status = error.response.status_code if isinstance(error, HfHubHTTPError) and error.response is not None else None
    if status == 401 and (uploading or "Invalid credentials" in _said(error)):
        return f"The Hub does not accept the token given for {repo}; {_LOG_IN} to a valid one that may write."
    if isinstance(error, RepositoryNotFoundError):
        return f"There is no repository {repo} on the Hub, or this token may not see it; check the name, or {_LOG_IN}."
    if status == 403:
        return f"This token may not {'write to' if uploading else 'read'} {repo} ({_said(error)}); use one that may."
    if status == 429:
        return f"The Hub answers too many requests with a pause; wait some minutes, then try {repo} again."
    if status is not None and status != 404:
        again = f"; {state}" if uploading else ""
        return f"The Hub answered {status} over {repo} ({_said(error)}){again}; try again later."
    return None


def _said(error: BaseException) -> str:
    """The server's own words, on one line."""
    message = getattr(error, "server_message", None)
    response = getattr(error, "response", None)
    if not message and response is not None:
        message = response.headers.get("X-Error-Message")
    return " ".join((message or str(error)).split())[:200]


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, outermost first."""
    current: BaseException | None = error
    seen: set[int] = set()
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__
