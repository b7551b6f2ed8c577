"""What the answer of an object store to a failed request means: by the code in it, not by its status alone.

In: the text of the client's error, which has the status of the answer and its body, as XML of S3, Azure and Google or
as JSON. Out: an ``ErrorResponse`` with the store's own words, what it says about the request, and what its reader can
do. S3's "Error Responses", Azure's "Blob service error codes" and Google's "HTTP status and error codes" list the
codes. An answer to HEAD has no body, so only its status is known.
"""

from __future__ import annotations

import contextlib
import re
from typing import Literal

import msgspec

Meaning = Literal["refused", "busy", "exists", "unsent"]


class ErrorResponse(msgspec.Struct, frozen=True):
    """One answer that is not a success.

    ``meaning``: "refused" (nothing was done, and a repeat is refused too), "busy" (it may have been done, or a repeat
    may be), "exists" (the condition of a put did not hold), "unsent" (there were no credentials to send it with, and
    there may be later). ``reason`` is that of an ``AccessError``, "" if it is about anything but access.
    ``advice`` is what to do about a refusal, as one or more sentences.
    """

    status: int
    code: str
    meaning: Meaning
    reason: str
    advice: str


def answer_in(text: str) -> ErrorResponse | None:
    """The answer that the text of a client's error holds; None if the store did not answer."""
    if (redirected := _REDIRECT.search(text)) is not None:
        return ErrorResponse(301, redirected[0], "refused", "", _REGION)
    found = _STATUS.search(text)
    if found is None:
        return None
    status, body = int(found[1]), found[2].strip()
    code = _parsed(body)[0]
    if _is_for_credentials(text):
        is_final = 400 <= status < 500 and status not in _BUSY_STATUSES
        reason = "expired" if _is_expired(code, body) else "missing" if _INSTANCE.search(text) else "wrong"
        return ErrorResponse(status, code, "refused" if is_final else "unsent", reason, _TOKEN_SERVICE)
    meaning = _meaning(status, code)
    reason, advice = _explained(status, code, body) if meaning == "refused" else ("", _LATER)
    return ErrorResponse(status, code, meaning, reason, advice)


def words_of(text: str) -> str:
    """The text with each answer cut down to its code and message: the rest may repeat a token, or what it signed."""
    return _BODY.sub(lambda body: ": ".join(part for part in _parsed(body[0]) if part) or body[0], text)


def _meaning(status: int, code: str) -> Meaning:
    if code in _BUSY_CODES or code.endswith("ThrottlingException"):
        return "busy"
    if code in _EXISTS_CODES:
        return "exists"
    if code in _REFUSED_CODES or code.startswith("KMS."):
        return "refused" if status < 500 or status in _REFUSED_STATUSES else "busy"
    if status in (304, 409, 412):
        return "exists"
    if status in _REFUSED_STATUSES or (300 <= status < 500 and status not in _BUSY_STATUSES):
        return "refused"
    return "busy"


def _explained(status: int, code: str, body: str) -> tuple[str, str]:
    """The reason of an AccessError, "" if it is no question of access, and what to do."""
    if _is_expired(code, body):
        return "expired", _RENEW
    if code.startswith("KMS."):
        return "forbidden", _KEY
    for codes, explained in _BY_CODE:
        if code in codes:
            return explained
    return _BY_STATUS.get(status, ("", _WORDS))


def _is_expired(code: str, body: str) -> bool:
    return code in _EXPIRED_CODES or _EXPIRED.search(body) is not None


def _is_for_credentials(text: str) -> bool:
    return "Error performing token request" in text or _INSTANCE.search(text) is not None


def _parsed(body: str) -> tuple[str, str]:
    """The code and the message of an answer's body; "" for what it lacks."""
    if (code := _CODE.search(body)) is not None:
        message = _MESSAGE.search(body)
        return _line(code[1]), _line(message[1]) if message is not None else ""
    with contextlib.suppress(msgspec.DecodeError):
        held = msgspec.json.decode(body[body.index("{") :].encode()) if "{" in body else None
        if isinstance(held, dict):
            return _parsed_json(held)
    return "", ""


def _parsed_json(held: dict[str, object]) -> tuple[str, str]:
    """Google's ``{"error": {"status", "message"}}``, and OAuth's ``{"error", "error_description"}``."""
    error = held.get("error")
    if isinstance(error, dict):
        reasons = error.get("errors")
        first = reasons[0] if isinstance(reasons, list) and reasons and isinstance(reasons[0], dict) else {}
        code = error.get("status") or first.get("reason") or error.get("code") or ""
        return _line(str(code)), _line(str(error.get("message") or ""))
    return _line(str(error or "")), _line(str(held.get("error_description") or ""))


def _line(text: str) -> str:
    return " ".join(text.split())


_STATUS = re.compile(r"Server returned (?:non-2xx status code: )(\d{3})[^:\n]*:?(.*)", re.DOTALL)
_REDIRECT = re.compile(r"Received redirect without LOCATION[^\n]*|error following redirect")
_BODY = re.compile(r"(?:\ufeff)?(?:<\?xml[^>]*>\s*)?<Error>.*?(?:</Error>|\Z)|\{.*\}", re.DOTALL)
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_INSTANCE = re.compile(r"/latest/(api/token|meta-data)|/metadata/identity|/computeMetadata/")
_EXPIRED = re.compile(
    r"not valid in the specified time frame|Lifetime validation failed|(token|keys?|credentials) (is|are) expired"
    r"|(has|have) expired|token expired",
    re.IGNORECASE,
)

_BUSY_STATUSES = {408, 421, 425, 429}
_REFUSED_STATUSES = {501, 505, 507, 508}
_BUSY_CODES = {
    *(
        "RequestTimeout",
        "SlowDown",
        "TooManyRequests",
        "Throttling",
        "ServerBusy",
        "OperationTimedOut",
        "InternalError",
    ),
    *("IncompleteBody", "BadDigest", "XAmzContentSHA256Mismatch", "Md5Mismatch", "RequestThrottled"),
}
"""Whatever their status: the same request can succeed."""
_EXISTS_CODES = {"BlobAlreadyExists", "UnauthorizedBlobOverwrite", "BlobImmutableDueToPolicy", "ConditionNotMet"}
"""The second is Azure's 403 for who may create blobs and not overwrite them."""
_EXPIRED_CODES = {
    *("ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "ExpiredAuthenticationToken", "RequestExpired"),
}
_ABSENT_CODES = {"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound"}
_GONE_CODES = {
    *("ContainerBeingDeleted", "ContainerDisabled", "AccountIsDisabled", "AccountBeingCreated", "AccountProblem"),
    *("AllAccessDisabled", "InvalidBucketState", "UserProjectAccountProblem"),
}
_FULL_CODES = {
    *("XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "QuotaExceeded", "InsufficientStorage", "EntityTooLarge"),
    *("InsufficientCapacity", "StorageQuotaExceeded", "RequestBodyTooLarge"),
}
_REGION_CODES = {"PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
_WRONG_CODES = {
    *(
        "InvalidToken",
        "InvalidTokenId",
        "InvalidClientTokenId",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "InvalidSecurity",
        "MalformedSecurityToken",
    ),
    *("AuthenticationFailed", "InvalidAuthenticationInfo", "AuthenticationRequired", "NoAuthenticationInformation"),
    *("Unauthorized", "UNAUTHENTICATED", "invalid_grant", "invalid_client"),
}
_REFUSED_CODES = _EXPIRED_CODES | _ABSENT_CODES | _GONE_CODES | _FULL_CODES | _REGION_CODES | _WRONG_CODES

_LATER = "Run it again later."
_RENEW = (
    "The credentials have expired: renew them and open the table with the new ones, or pass a credential_provider,"
    " which renews them by itself (docs/storage.md). Then run it again."
)
_WRONG = "Check the credentials: the store does not know them. Then run it again."
_RIGHTS = (
    "Check the credentials and their permissions, then run it again. txlog lists, reads, writes and deletes below the"
    " table: s3:ListBucket, s3:GetObject, s3:PutObject and s3:DeleteObject, or what your store calls them. Without the"
    " right to list, S3 gives this answer for an object that does not exist, too."
)
_CLOCK = "Correct the clock of this machine, then run it again."
_KEY = "The key service refuses the bucket's key: enable the key or give these credentials the right to use it."
_ABSENT = "There is no such bucket: create it, or correct the location."
_GONE = "The bucket or its account is disabled or being deleted: that is for its owner to change."
_FULL = "The store has no room or does not take so much at once: make room or raise its limit, then run it again."
_REGION = "The bucket is in another region: set the storage option region to it."
_LACKS = "The store lacks this request. `txlog probe-store` says whether it can hold tables."
_WORDS = "The store refuses this request, and a repeat would be refused too: its words say why."
_TOKEN_SERVICE = (
    "No credentials could be fetched, so the request was not sent: check the account, role or secret that fetches them."
)

_BY_CODE: tuple[tuple[set[str], tuple[str, str]], ...] = (
    ({"RequestTimeTooSkewed"}, ("wrong", _CLOCK)),
    (_WRONG_CODES, ("wrong", _WRONG)),
    (_ABSENT_CODES, ("", _ABSENT)),
    (_GONE_CODES, ("forbidden", _GONE)),
    (_FULL_CODES, ("", _FULL)),
    (_REGION_CODES, ("", _REGION)),
)
_BY_STATUS = {
    401: ("wrong", _WRONG),
    403: ("forbidden", _RIGHTS),
    405: ("", _LACKS),
    413: ("", _FULL),
    501: ("", _LACKS),
    507: ("", _FULL),
}
