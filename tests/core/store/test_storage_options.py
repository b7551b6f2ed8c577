from __future__ import annotations

import logging
import re
from datetime import timedelta
from pathlib import Path

import pytest

from txlog.core.store import _options as options
from txlog.core.store._object_client import ObjectClient
from txlog.core.store._open import open_store
from txlog.core.store._options import StorageKind, parse_options, redact
from txlog.errors import InvalidInputError

ROOT = Path(__file__).parents[3]

# What the client itself says it knows, from its type declarations.
S3_EXAMPLES = {
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "Session_Token": "session_token",
    "aws_token": "session_token",
    "REGION": "region",
    "AWS_ENDPOINT_URL": "endpoint",
    "endpoint": "endpoint",
    "aws_virtual_hosted_style_request": "virtual_hosted_style_request",
    "aws_skip_signature": "skip_signature",
    "AWS_SERVER_SIDE_ENCRYPTION": "server_side_encryption",
}


@pytest.mark.parametrize(("key", "name"), S3_EXAMPLES.items())
def test_keys_are_taken_in_any_case_with_and_without_prefix(key: str, name: str) -> None:
    value = "https://x" if name == "endpoint" else "x"
    assert dict(parse_options({key: value}, StorageKind.S3).config) == {name: value}


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("AZURE_STORAGE_ACCOUNT_KEY", "account_key"),
        ("azure_client_id", "client_id"),
        ("sas_token", "sas_key"),
        ("ACCESS_KEY", "account_key"),
    ],
)
def test_azure_keys_lose_either_prefix(key: str, name: str) -> None:
    assert dict(parse_options({key: "x"}, StorageKind.AZURE).config) == {name: "x"}


def test_google_keys_lose_their_prefix() -> None:
    options = parse_options({"GOOGLE_SERVICE_ACCOUNT": "a.json", "google_base_url": "http://x"}, StorageKind.GCS)
    assert dict(options.config) == {"service_account": "a.json", "base_url": "http://x"}


def test_client_keys_go_to_the_client_and_numbers_are_seconds() -> None:
    options = parse_options(
        {"allow_http": True, "AWS_ALLOW_HTTP": "true", "timeout": 30, "connect_timeout": "1.5", "read_timeout": "2m"},
        StorageKind.S3,
    )
    assert dict(options.client) == {
        "allow_http": "true",
        "timeout": timedelta(seconds=30),
        "connect_timeout": timedelta(seconds=1.5),
        "read_timeout": "2m",
    }


@pytest.mark.parametrize(
    ("value", "seconds"), [("10s", 10), ("500ms", 0.5), ("2 min", 120), ("3", 3), (4, 4), ("1h", 3600)]
)
def test_retry_keys_are_understood(value: object, seconds: float) -> None:
    options = parse_options({"max_retries": "7", "retry_timeout": value}, StorageKind.S3)
    assert options.max_retries == 7
    assert options.retry_timeout == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("aws_regoin", "region"), ("AWS_SECRET_KEY", "secret_access_key"), ("alow_http", "allow_http")],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(key: str, nearest: str) -> None:
    with pytest.raises(InvalidInputError, match=nearest):
        parse_options({key: "value"}, StorageKind.S3)


@pytest.mark.parametrize("cloud", [StorageKind.AZURE, StorageKind.GCS])
def test_a_key_of_another_cloud_is_unknown(cloud: StorageKind) -> None:
    with pytest.raises(InvalidInputError, match="aws_region"):
        parse_options({"aws_region": "x"}, cloud)


def test_unsafe_rename_is_ignored_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="txlog"):
        options = parse_options({"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, StorageKind.S3)
    assert dict(options.config) == {}
    assert "AWS_S3_ALLOW_UNSAFE_RENAME is ignored" in caplog.text


def test_locking_through_dynamodb_is_refused_and_says_why() -> None:
    with pytest.raises(InvalidInputError, match="would overwrite them"):
        parse_options({"AWS_S3_LOCKING_PROVIDER": "dynamodb"}, StorageKind.S3)


def test_conditional_puts_cannot_be_switched_off() -> None:
    with pytest.raises(InvalidInputError, match="conditional put"):
        parse_options({"aws_conditional_put": "disabled"}, StorageKind.S3)
    assert dict(parse_options({"aws_conditional_put": "etag"}, StorageKind.S3).config) == {"conditional_put": "etag"}


@pytest.mark.parametrize("key", ["AWS_PROFILE", "bucket", "aws_iam_role_arn"])
def test_the_error_for_a_misplaced_storage_option_says_where_it_belongs(key: str) -> None:
    with pytest.raises(InvalidInputError, match=r"URI|credential_provider="):
        parse_options({key: "x"}, StorageKind.S3)


def test_two_spellings_of_one_key_must_agree() -> None:
    assert dict(parse_options({"region": "a", "AWS_REGION": "a"}, StorageKind.S3).config) == {"region": "a"}
    with pytest.raises(InvalidInputError, match="second, different value"):
        parse_options({"region": "a", "AWS_REGION": "b"}, StorageKind.S3)


def test_a_local_table_takes_any_known_key_and_uses_none() -> None:
    options = parse_options({"AWS_REGION": "x", "account_key": "y", "timeout": "1s"}, StorageKind.LOCAL)
    assert not options.config
    assert not options.client
    with pytest.raises(InvalidInputError, match="region"):
        parse_options({"AWS_REGOIN": "x"}, StorageKind.LOCAL)


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": "soon"},
        {"allow_http": "perhaps"},
        {"skip_signature": "perhaps"},
        {"server_side_encryption": "rot13"},
        {"root_certificate": "junk"},
        {"max_retries": "-1"},
        {"timeout": []},
        {"region": 1.5},
        {"default_headers": "x"},
        {"proxy_url": "::::"},
        {"user_agent": "two\nlines"},
        {1: "x"},
    ],
)
def test_a_bad_value_is_reported_when_the_table_is_opened(options: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError, match="storage_options"):
        open_store("s3://bucket/table", options)


@pytest.mark.parametrize(
    ("cloud", "key", "name"),
    [
        (StorageKind.S3, "endpoint_url", "endpoint"),
        (StorageKind.AZURE, "endpoint", "endpoint"),
        (StorageKind.AZURE, "endpoint_url", "endpoint"),
        (StorageKind.AZURE, "AZURE_STORAGE_ENDPOINT_URL", "endpoint"),
        (StorageKind.GCS, "base_url", "base_url"),
        (StorageKind.GCS, "endpoint", "base_url"),
        (StorageKind.GCS, "google_endpoint_url", "base_url"),
    ],
)
def test_each_store_takes_the_url_of_another_server(cloud: StorageKind, key: str, name: str) -> None:
    assert dict(parse_options({key: "https://x"}, cloud).config) == {name: "https://x"}


@pytest.mark.parametrize(
    ("cloud", "value", "problem"),
    [
        (StorageKind.S3, "ftp://127.0.0.1:9000", "ftp:// is not a scheme of web servers"),
        (StorageKind.S3, "s3://bucket", "s3:// is not a scheme of web servers"),
        (
            StorageKind.AZURE,
            "abfss://container@account",
            "or http://127.0.0.1:10000/devstoreaccount1 with allow_http: abfss://",
        ),
        (StorageKind.AZURE, "127.0.0.1:10000/devstoreaccount1", "http:// or https:// is missing"),
        (
            StorageKind.GCS,
            "gs://bucket",
            "such as https://storage.example.com, or http://127.0.0.1:4443 with allow_http: gs://",
        ),
        (StorageKind.GCS, "https://", "no server follows"),
        (StorageKind.GCS, "secret password://x", "another:// is not a scheme of web servers"),
    ],
)
def test_an_endpoint_with_a_wrong_scheme_is_refused_by_its_name(cloud: StorageKind, value: str, problem: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_options({"endpoint_url": value}, cloud)
    assert "endpoint_url takes a complete URL" in str(caught.value)
    assert problem in str(caught.value)
    assert "password" not in str(caught.value)


@pytest.mark.parametrize("key", ["endpoint", "AWS_ENDPOINT_URL", "endpoint_url_s3", "sts_endpoint"])
def test_an_endpoint_without_its_scheme_is_refused_before_the_client_panics_over_it(key: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{key} takes a complete URL, such as https://") as caught:
        parse_options({key: "user:hush@localhost:9000"}, StorageKind.S3)
    assert "hush" not in str(caught.value)


def test_no_message_and_no_text_of_the_options_shows_a_secret() -> None:
    options = parse_options({"secret_access_key": "hush-hush", "access_key_id": "AKIA1234"}, StorageKind.S3)
    assert "hush" not in repr(options)
    text = "PUT https://me:pw@host/k?X-Amz-Signature=abcdef&sig=qwerty hush-hush AKIA1234 Authorization: Bearer tok"
    shown = redact(text, options.secrets())
    for secret in ("hush", "AKIA", "me:pw", "abcdef", "qwerty", "tok"):
        assert secret not in shown
    assert "https://***@host/k" in shown


def test_a_secret_in_a_bad_value_is_not_repeated() -> None:
    with pytest.raises(InvalidInputError) as caught:
        open_store("az://container/table", {"account_name": "account", "account_key": "not base64!!"})
    assert "not base64!!" not in str(caught.value)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3a://bucket", "s3a://bucket"),
        ("S3://bucket/x%20y", "s3://bucket/x y"),
        ("gs://bucket/t", "gs://bucket/t"),
        ("az://container/t", "az://container/t"),
        ("abfss://container@account.dfs.core.windows.net/t", "abfss://container@account.dfs.core.windows.net/t"),
    ],
)
def test_each_kind_of_uri_opens_and_is_shown_without_more(uri: str, shown: str) -> None:
    options = {"account_name": "account"} if uri.startswith("az:") else {}
    assert open_store(uri, {**options, "skip_signature": True}).uri == shown


@pytest.mark.parametrize(
    ("host", "config"),
    [
        ("acc.dfs.core.windows.net", {"account_name": "acc"}),
        ("acc.blob.core.windows.net", {"account_name": "acc"}),
        (
            "acc.dfs.core.chinacloudapi.cn",
            {"account_name": "acc", "endpoint": "https://acc.blob.core.chinacloudapi.cn"},
        ),
        ("onelake.dfs.fabric.microsoft.com", {"account_name": "onelake", "use_fabric_endpoint": "true"}),
    ],
)
def test_an_azure_host_says_which_account_and_cloud(host: str, config: dict[str, str]) -> None:
    store = open_store(f"abfss://container@{host}/t", {"skip_signature": True})
    client = store.log._client  # type: ignore[attr-defined]
    assert isinstance(client, ObjectClient)
    assert dict(client.location.config) == config
    assert client.location.bucket == "container"


@pytest.mark.parametrize(
    "uri",
    [
        "s3://key:secret@bucket/t",
        "s3://bucket/t?sig=secret",
        "s3://bucket/t#secret",
        "s3:///t",
        "s3://bucket/a/../b",
        "s3://bucket/a//b",
        "hdfs://secret/x",
        "file://secret/x",
        "abfss://container@secret/x",
        "",
        "a\0b",
    ],
)
def test_a_uri_that_cannot_be_used_is_refused_without_repeating_a_secret(uri: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        open_store(uri)
    assert "key:secret" not in str(caught.value)
    assert "sig=" not in str(caught.value)


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "file://localhost{}"])
def test_each_way_to_name_a_local_path_is_the_same_table(form: str, tmp_path: object) -> None:
    assert open_store(form.format(tmp_path)).uri == str(tmp_path)


def test_a_file_uri_is_decoded_and_a_plain_path_is_not() -> None:
    assert open_store("file:///tmp/a%20b").uri == "/tmp/a b"
    assert open_store("/tmp/a%20b").uri == "/tmp/a%20b"


def test_every_key_is_on_the_page_that_an_error_names() -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_options({"nothing_like_it": "x"}, StorageKind.LOCAL)
    page = re.search(r"docs/\S+\.md", caught.value.message)
    assert page is not None
    reported = set(re.findall(r"`([a-z0-9_]+)`", (ROOT / page[0]).read_text()))
    keys = {name for each in options._CONFIG.values() for name in each} | options._CLIENT | options._RETRY
    assert keys <= reported, sorted(keys - reported)


@pytest.mark.parametrize("cloud", StorageKind)
def test_an_unknown_key_is_answered_in_a_line_with_the_nearest_one(cloud: StorageKind) -> None:
    with pytest.raises(InvalidInputError, match="Did you mean 'timeout'") as caught:
        parse_options({"time_out": "1"}, cloud)
    assert len(caught.value.message) < 200
    with pytest.raises(InvalidInputError) as caught:
        parse_options({"nothing_like_it": "x"}, cloud)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    "uri", ["t/_delta_log", "/a/t/_delta_log/", "s3://bucket/t/_delta_log/_commits", "file:///t/_delta_log"]
)
def test_a_location_inside_a_log_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInputError, match="the folder that contains _delta_log"):
        open_store(uri, {})
    assert open_store("t/_delta_logs", {}).uri.endswith("/t/_delta_logs")


def test_options_that_are_not_a_mapping_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="dict"):
        open_store("s3://bucket/t", "region=eu-west-1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("location", "path"),
    [("~/t", "{home}/t"), ("~", "{home}"), ("./~/t", "{here}/~/t"), ("a~/t", "{here}/a~/t"), (Path("~/t"), "{home}/t")],
)
def test_a_tilde_is_the_home_directory_as_in_a_shell(
    location: str | Path, path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    assert open_store(location).uri == path.format(home=tmp_path / "home", here=tmp_path)


@pytest.mark.parametrize("location", [None, 5, b"t", ["t"], "", " "])
def test_a_value_that_is_not_a_location_is_refused(location: object) -> None:
    with pytest.raises(InvalidInputError, match=r"Invalid table location .*: expected a path or a URI"):
        open_store(location)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("location", "instead"),
    [
        ("arn:aws:s3:::bucket/key", "s3://bucket/key"),
        ("arn:aws:s3:us-east-1:123456789012:accesspoint/ap", "the alias of the access point"),
        (r"C:\data\t", "/mnt/c/data/t"),
        ("C:/data/t", "/mnt/c/data/t"),
        (r"\\server\share\t", "mount the share"),
        ("wasbs://c@a.blob.core.windows.net/p/t?sig=hidden", "abfss://c@a.dfs.core.windows.net/p/t"),
        ("https://a.dfs.core.windows.net/c/p/t?sig=hidden", "abfss://c@a.dfs.core.windows.net/p/t"),
        ("https://a.blob.core.windows.net/c/p/t", "abfss://c@a.dfs.core.windows.net/p/t"),
        (
            "https://onelake.dfs.fabric.microsoft.com/ws/lh.Lakehouse/Tables/t",
            "abfss://ws@onelake.dfs.fabric.microsoft.com/lh.Lakehouse/Tables/t",
        ),
        ("https://bucket.s3.eu-west-1.amazonaws.com/p/t", "s3://bucket/p/t"),
        ("https://s3.eu-west-1.amazonaws.com/bucket/p/t", "s3://bucket/p/t"),
        ("https://storage.googleapis.com/bucket/p/t", "gs://bucket/p/t"),
        ("http://user:hidden@localhost:9000/bucket/t", "endpoint_url"),
        ("dbfs:/mnt/t", "/dbfs/mnt/t"),
        ("dbfs:/Volumes/c/s/v/t", "use the path /Volumes/c/s/v/t;"),
        ("s3n://bucket/t", "s3://bucket/t"),
        ("s3n://key:hidden@bucket/t", "s3://bucket/path"),
        ("minio://key:hidden@localhost:9000/bucket/t", "endpoint_url"),
        ("s3:bucket/t", "s3://bucket/path"),
        ("s3:/bucket/t", "s3://bucket/path"),
        (" s3://key:hidden@bucket/t", "s3://bucket/path"),
        ("file:t", "file:///path"),
    ],
)
def test_an_address_of_another_form_is_refused_with_the_form_to_use(location: str, instead: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        open_store(location)
    assert instead in caught.value.message
    assert "hidden" not in caught.value.message


@pytest.mark.parametrize("location", ["./C:/data", "a:b/t", "/data/arn:aws:s3:::b", r"/data/a\b"])
def test_a_local_folder_may_have_any_name(location: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert open_store(location).uri == str(tmp_path / location)
