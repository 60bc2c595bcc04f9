"""The static part in a bucket of Amazon S3, or of a compatible service (MinIO, R2, OSS, Ceph).

s3://bucket/prefix?endpoint_url=https://...&region_name=...; boto3 finds the credentials to write:
environment, profile, role. Needs the extra `s3`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from palmkit.delivery.repository.storage import Conflict, Entry, chunks, digest_in, sha256_of
from palmkit.engine.errors import RepositoryError

_OPTIONS = ("endpoint_url", "region_name")
# Mutable files are cached for a minute; a name with a version or a digest never changes.
_FRESH = "public, max-age=60"
_IMMUTABLE = "public, max-age=31536000, immutable"


class Bucket:
    """A bucket, or what lies below a prefix of it; existing names are never overwritten."""

    def __init__(self, url: str, client: Any = None) -> None:
        """Use a bucket, which has to exist.

        client: a client of boto3 to use instead of a new one.
        Raises RepositoryError for a URL of another form, or if boto3 is not installed.
        """
        parts = urlsplit(url)
        options = dict(parse_qsl(parts.query))
        if parts.scheme != "s3" or not parts.netloc or options.keys() - set(_OPTIONS):
            raise RepositoryError(
                f"expected s3://bucket/prefix?endpoint_url=...&region_name=..., got {url}"
            )
        self._url = url
        self._bucket = parts.netloc
        self._prefix = f"{parts.path.strip('/')}/" if parts.path.strip("/") else ""
        self._client = client or _client(options)
        # The ETag of what was last read, which `replace` may overwrite.
        self._read: dict[str, str] = {}

    def __str__(self) -> str:
        """Return the bucket's name."""
        return f"s3://{self._bucket}/{self._prefix}"

    def _call(self, action: str, name: str, **arguments: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return getattr(self._client, action)(
                Bucket=self._bucket, Key=self._prefix + name, **arguments
            )
        except ClientError as error:
            response: Any = error.response
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if status == 404:
                return None
            if status in (409, 412):
                raise Conflict(f"written by somebody else at the same time: {name}") from error
            raise RepositoryError(f"{self}{name}: {error}") from error
        except BotoCoreError as error:
            raise RepositoryError(f"{self}{name}: {error}") from error

    def read(self, name: str) -> bytes | None:
        """Return the whole file, None if there is no such file."""
        found = self._call("get_object", name)
        if found is None:
            self._read.pop(name, None)
            return None
        self._read[name] = found["ETag"]
        return bytes(found["Body"].read())

    def _write(self, name: str, content: bytes | Path, **conditions: str) -> None:
        digest = bytes.fromhex(sha256_of(content))
        size = len(content) if isinstance(content, bytes) else content.stat().st_size
        is_index = name == "metadata/timestamp.json"
        body = content if isinstance(content, bytes) else content.read_bytes()
        written = self._call(
            "put_object",
            name,
            Body=body,
            ContentType="application/json" if name.endswith(".json") else "binary/octet-stream",
            CacheControl=_FRESH if is_index else _IMMUTABLE,
            ChecksumSHA256=base64.b64encode(digest).decode(),
            **conditions,
        )
        found = self._call("head_object", name)
        if written is None or found is None or found["ContentLength"] != size:
            raise RepositoryError(f"not there as it was written: {self}{name}")
        self._read[name] = found["ETag"]

    def create(self, name: str, content: bytes) -> None:
        """Write a file that does not exist yet."""
        try:
            self._write(name, content, IfNoneMatch="*")
        except Conflict:
            # The first answer was lost, and the file there is the one sent.
            if self.read(name) != content:
                raise

    def add(self, name: str, source: Path | bytes) -> None:
        """Have a file whose name holds its digest."""
        found = self._call("head_object", name)
        digest, size = hashlib.sha256(), 0
        for chunk in chunks(source):
            digest.update(chunk)
            size += len(chunk)
        if digest.hexdigest() != digest_in(name):
            raise RepositoryError(f"changed while it was copied: {name}")
        if found is None or found["ContentLength"] != size:
            self._write(name, source)

    def replace(self, name: str, content: bytes) -> None:
        """Overwrite the file as last read."""
        seen = self._read.get(name)
        try:
            self._write(name, content, **({"IfMatch": seen} if seen else {"IfNoneMatch": "*"}))
        except Conflict:
            if self.read(name) != content:
                raise

    def entries(self, prefix: str) -> Iterator[Entry]:
        """Yield all files below a prefix."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                for found in page.get("Contents", []):
                    name = found["Key"].removeprefix(self._prefix)
                    yield Entry(name, found["Size"], found["LastModified"].timestamp())
        except (BotoCoreError, ClientError) as error:
            raise RepositoryError(f"{self}{prefix}: {error}") from error

    def delete(self, name: str) -> None:
        """Delete a file."""
        self._call("delete_object", name)


def _client(options: dict[str, str]) -> Any:
    try:
        import boto3
        from botocore.config import Config
    except ImportError:
        raise RepositoryError('buckets need boto3: pip install "palmkit[s3]"') from None
    # Compatible services seldom know the newer checksums; each file carries ours.
    config = Config(
        connect_timeout=5,
        read_timeout=60,
        retries={"mode": "standard", "max_attempts": 5},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    client: Any = boto3
    return client.client("s3", config=config, **options)
