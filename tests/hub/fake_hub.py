"""
A Hub of one process on 127.0.0.1: repositories in memory, the endpoints that huggingface_hub, transformers and
datasets ask, tokens, private and gated repositories, and uploads that break off.
"""

import base64
import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_fake"
READ_TOKEN = "hf_read"
LARGE = (".safetensors", ".parquet", ".onnx", ".data")
LIMIT = 64 * 2**20


@dataclass
class Repository:
    gated: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    branches: set[str] = field(default_factory=lambda: {"main"})  # names alone: all show the same files
    commits: int = 0

    @property
    def sha(self) -> str:
        return f"{self.commits:040x}"


class FakeHub:
    """`with FakeHub() as hub: HfApi(endpoint=hub.url, token=TOKEN)`."""

    def __init__(self) -> None:
        self.repositories: dict[tuple[str, str], Repository] = {}
        self.blobs: dict[str, bytes] = {}
        self.cut_uploads = 0  # so many uploads of large files break off half-way
        self.received = 0  # large files that arrived
        handler = type("Handler", (Handler,), {"hub": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> "FakeHub":
        self.thread.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(10)

    def model(self, name: str) -> Repository:
        return self.repositories["models", name]

    def environment(self, home: Any, token: str | None = TOKEN) -> dict[str, str]:
        """What a process needs to use this Hub."""
        known = {"HF_ENDPOINT": self.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1", "HF_HUB_OFFLINE": "0"}
        known |= {"HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
        return {**known, **({"HF_TOKEN": token} if token else {})}


class Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        pass

    # What is asked: /api/{kind}s/{name}/{rest}, or [/datasets]/{name}/{resolve/...}
    def answer(self, status: int, content: Any = b"", **headers: str) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        kind = "application/octet-stream" if isinstance(content, bytes) else "application/json"
        self.send_header("Content-Type", headers.pop("kind", kind))
        self.send_header("Content-Length", headers.pop("length", str(len(body))))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str = "", message: str = "") -> None:
        self.answer(status, {"error": message or code}, X_Error_Code=code, X_Error_Message=message or code)

    def body(self) -> bytes:
        length = int(self.headers.get("Content-Length") or 0)
        assert length < LIMIT, "no test sends as much"
        return self.rfile.read(length)

    @property
    def token(self) -> str | None:
        given = self.headers.get("Authorization", "")
        return given.removeprefix("Bearer ") or None

    def allowed(self, write: bool) -> bool:
        if self.token not in (None, TOKEN, READ_TOKEN):
            self.refuse(401, "", "Invalid credentials in Authorization header")
        elif write and self.token is None:
            self.refuse(401, "", "Unauthorized")
        elif write and self.token != TOKEN:
            self.refuse(403, "", "Forbidden: you must use a write token to upload to a repository.")
        else:
            return True
        return False

    def repository(self, kind: str, name: str) -> Repository | None:
        found = self.hub.repositories.get((kind, name))
        if found is None:
            self.refuse(404 if self.token else 401, "RepoNotFound", "Repository not found")
            return None
        return found

    def do_POST(self) -> None:
        path, body = unquote(urlsplit(self.path).path), self.body()
        if not self.allowed(write=path != "/api/validate-yaml"):
            return
        if path == "/api/validate-yaml":
            self.answer(200, {"errors": [], "warnings": []})
        elif path == "/api/repos/create":
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'jane'}/{asked['name']}"
            kind = f"{asked.get('type') or 'model'}s"
            prefix = "" if kind == "models" else f"{kind}/"
            known = (kind, name) in self.hub.repositories
            self.hub.repositories.setdefault((kind, name), Repository())
            self.answer(409 if known else 200, {"url": f"{self.hub.url}/{prefix}{name}"})
        elif match := re.fullmatch(r"/(datasets/)?(.+?/.+?)\.git/info/lfs/objects/batch", path):
            objects = json.loads(body)["objects"]
            for each in objects:
                if each["oid"] not in self.hub.blobs:
                    each["actions"] = {"upload": {"href": f"{self.hub.url}/lfs/{each['oid']}"}}
            self.answer(200, {"transfer": "basic", "objects": objects}, kind="application/vnd.git-lfs+json")
        elif match := re.fullmatch(r"/api/(models|datasets)/(.+?/.+?)/(preupload|commit|paths-info)/([^/]+)", path):
            repository = self.repository(match[1], match[2])
            if repository is None:
                return
            if match[3] != "paths-info" and match[4] not in repository.branches:
                self.refuse(404, "RevisionNotFound", f"Invalid rev id: {match[4]}")
            elif match[3] == "preupload":
                asked = json.loads(body)["files"]
                modes = {each["path"]: "lfs" if each["path"].endswith(LARGE) else "regular" for each in asked}
                files = [{"path": p, "uploadMode": m, "shouldIgnore": False, "oid": None} for p, m in modes.items()]
                self.answer(200, {"files": files})
            elif match[3] == "paths-info":
                names = json.loads(body)["paths"] if body[:1] == b"{" else []
                self.answer(200, [entry(name, repository.files[name]) for name in names if name in repository.files])
            else:
                self.commit(repository, [json.loads(line) for line in body.splitlines() if line.strip()], match[2])
        elif match := re.fullmatch(r"/api/(models|datasets)/(.+?/.+?)/branch/([^/]+)", path):
            repository = self.repository(match[1], match[2])
            if repository is not None:
                known = match[3] in repository.branches
                repository.branches.add(match[3])
                self.answer(409 if known else 200, {})
        else:
            self.refuse(404, "", f"no such endpoint: {path}")

    def commit(self, repository: Repository, lines: list[dict[str, Any]], name: str) -> None:
        files = dict(repository.files)
        for line in lines:
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.hub.blobs[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        repository.files = files
        repository.commits += 1
        url = f"{self.hub.url}/{name}/commit/{repository.sha}"
        self.answer(200, {"success": True, "commitOid": repository.sha, "commitUrl": url})

    def do_PUT(self) -> None:
        oid = self.path.rpartition("/")[2]
        if self.hub.cut_uploads:
            self.hub.cut_uploads -= 1
            self.rfile.read(int(self.headers["Content-Length"]) // 2)
            self.close_connection = True
            self.connection.close()
            return
        body = self.body()
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.blobs[oid] = body
        self.hub.received += 1
        self.answer(200)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = unquote(urlsplit(self.path).path)
        if not self.allowed(write=False):
            return
        if match := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)(?:/(tree|revision)/([^/]+)(?:/(.*))?)?", path):
            repository = self.repository(match[1], match[2])
            if repository is None:
                return
            if match[3] == "tree":
                recursive = "recursive=" in self.path.lower() and "recursive=false" not in self.path.lower()
                self.tree(repository, match[5] or "", recursive)
                return
            siblings = [{"rfilename": file} for file in repository.files]
            known = {"id": match[2], "sha": repository.sha, "siblings": siblings, "private": False, "tags": []}
            self.answer(200, {**known, "gated": repository.gated, "downloads": 0, "likes": 0, "disabled": False})
        elif match := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/(commits/[^/]+|discussions)", path):
            repository = self.repository(match[1], match[2])
            if repository is not None:
                log = [
                    {"id": repository.sha, "title": "", "message": "", "authors": [], "date": "2031-01-01T00:00:00Z"}
                ]
                self.answer(200, log if match[3] != "discussions" else {"discussions": [], "count": 0, "start": 0})
        elif match := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            repository = self.repository("datasets" if match[1] else "models", match[2])
            if repository is None:
                return
            if repository.gated:
                self.refuse(403 if self.token else 401, "GatedRepo", f"Access to {match[2]} is restricted")
            elif match[4] not in repository.files:
                self.answer(404, b"", X_Error_Code="EntryNotFound", X_Repo_Commit=repository.sha)
            else:
                self.send_file(repository.files[match[4]], repository.sha)
        else:
            self.refuse(404, "", f"no such endpoint: {path}")

    def tree(self, repository: Repository, folder: str, recursive: bool) -> None:
        inside = f"{folder}/" if folder else ""
        entries: dict[str, Any] = {}
        for name, content in repository.files.items():
            if name.startswith(inside):
                first, _, rest = name[len(inside) :].partition("/")
                if rest and not recursive:
                    entries[inside + first] = {"type": "directory", "oid": "0" * 40, "size": 0, "path": inside + first}
                else:
                    entries[name] = entry(name, content)
        if folder and not entries:
            self.answer(404, b"", X_Error_Code="EntryNotFound")
        else:
            self.answer(200, list(entries.values()))

    def send_file(self, content: bytes, sha: str) -> None:
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked and self.command == "GET":
            start, end = int(asked[1]), int(asked[2] or len(content) - 1)
            end = min(end, len(content) - 1)
            part = f"bytes {start}-{end}/{len(content)}"
            self.answer(206, content[start : end + 1], X_Repo_Commit=sha, ETag=tag, Content_Range=part)
        else:
            known = {"X_Repo_Commit": sha, "ETag": tag, "Accept_Ranges": "bytes"}
            self.answer(200, content, **known, length=str(len(content)))


def entry(name: str, content: bytes) -> dict[str, Any]:
    """A file as the Hub lists it."""
    known: dict[str, Any] = {"type": "file", "oid": hashlib.sha1(content).hexdigest(), "size": len(content)}
    if name.endswith(LARGE):
        known["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
    return {**known, "path": name}
