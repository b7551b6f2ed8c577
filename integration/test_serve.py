"""`txlog serve` as a process: killed, stopped, and reached by TLS. deltalake and DuckDB read the tables."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import random
import ssl
import threading
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from serve_process import ServeProcess, position, putting, serve

import txlog

KILLS = int(os.environ.get("TXLOG_SERVE_KILLS", "40"))
BATCHES = int(os.environ.get("TXLOG_SERVE_BATCHES", "1000"))
SCHEMA = pa.schema([("stream", pa.string()), ("n", pa.int64())])
LATER = ("--max-delay", "100000", "--maintain-every", "0")


def rows(stream: str, *numbers: int) -> pa.RecordBatch:
    return pa.record_batch({"stream": [stream] * len(numbers), "n": pa.array(numbers, pa.int64())})


def send(client: Any, batch: pa.RecordBatch, options: Any) -> None:
    """One batch in a call of its own, to the end of it."""
    writer, _ = putting(client, {"table": "events"}, batch.schema, options)
    writer.write_batch(batch)
    writer.close()


def counted(table: txlog.Table) -> Counter[tuple[str, int]]:
    """How often each row is in the table, as deltalake reads it."""
    found = deltalake.DeltaTable(table.uri).to_pyarrow_table()
    return Counter(zip(found["stream"].to_pylist(), found["n"].to_pylist(), strict=True))


@pytest.fixture
def table(tmp_path: Path) -> txlog.Table:
    return txlog.Catalog(tmp_path).create("events", "stream string, n bigint")


def test_what_a_killed_service_answered_is_in_the_table_once_after_its_restart(
    tmp_path: Path, table: txlog.Table
) -> None:
    journal = ("--journal", tmp_path / "journal", *LATER)
    with serve(tmp_path, *journal) as service, fl.connect(service.flight) as client:
        writer, answers = putting(client, {"table": "events", "stream": "a", "answer": "durable"}, SCHEMA)
        for number in range(20):
            writer.write_with_metadata(rows("a", number), json.dumps({"batch": number}).encode())
            assert json.loads(answers.read().to_pybytes())["outcome"] == "durable"
        post = f"{service.http}/tables/events/rows?answer=durable"
        request = urllib.request.Request(post, b'{"stream": "b", "n": 1}', {"content-type": "application/jsonl"})
        with urllib.request.urlopen(request) as answer:
            assert (answer.status, json.load(answer)["outcome"]) == (202, "durable")
        service.kill()
    assert counted(table) == {}
    with serve(tmp_path, *journal) as service:
        assert service.began["left_in_journal"] == 21
        with fl.connect(service.flight) as client:
            assert position(client, "events", "a")["taken"] == 19
            writer, answers = putting(client, {"table": "events", "stream": "a", "first": 19}, SCHEMA)
            for number in (19, 20):
                writer.write_batch(rows("a", number))
                assert json.loads(answers.read().to_pybytes())["batch"] == number
            writer.close()
        assert service.stop() == 0
    assert counted(table) == {**{("a", number): 1 for number in range(21)}, ("b", 1): 1}
    assert table.snapshot().transaction_version("serve/a") == 20


def test_a_service_that_is_stopped_commits_what_it_took_though_a_client_holds_its_call(
    tmp_path: Path, table: txlog.Table
) -> None:
    with serve(tmp_path, "--journal", tmp_path / "journal", *LATER) as service, fl.connect(service.flight) as client:
        writer, answers = putting(client, {"table": "events", "answer": "durable"}, SCHEMA)
        writer.write_batch(rows("a", 1))
        assert answers.read() is not None
        assert service.stop() == 0
    assert counted(table) == {("a", 1): 1}


def test_few_bytes_that_stand_for_very_many_do_not_fill_the_memory(tmp_path: Path, table: txlog.Table) -> None:
    """Zeros, compressed: 3 GB of rows in a message of some 100 KB, for a service that has 1.2 GB."""
    one = pa.py_buffer(bytes(384 << 20))
    offsets = pa.py_buffer(pa.array([0, len(one)], pa.int32()).buffers()[1])
    zeros = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, one])
    batch = pa.record_batch({f"c{number}": zeros for number in range(8)})
    packed = fl.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression="zstd"))
    with serve(tmp_path, "--max-waiting", "48mb", "--max-batch", "16mb") as service:
        with fl.connect(service.flight) as client:
            with pytest.raises(fl.FlightUnavailableError, match="no memory for the batch"):
                send(client, batch, packed)
            writer, answers = putting(client, {"table": "events"}, SCHEMA, packed)
            writer.write_batch(rows("a", 1))
            assert json.loads(answers.read().to_pybytes())["outcome"] == "committed"
            writer.close()
        status = Path(f"/proc/{service.process.pid}/status").read_text()
        peak_kb = int(status.partition("VmHWM:")[2].split()[0])
        assert peak_kb < 1_700_000
        assert service.stop() == 0
    assert counted(table) == {("a", 1): 1}


def test_off_loopback_both_doors_speak_tls_and_ask_for_a_token(tmp_path: Path, table: txlog.Table) -> None:
    certificate, key = self_signed(tmp_path)
    tokens = tmp_path / "tokens.jsonl"
    made = ServeToken(tokens)
    secure = ("--tokens", tokens, "--tls-cert", certificate, "--tls-key", key, "--host", "0.0.0.0")
    with serve(tmp_path, *secure) as service:
        flight, http = (each.replace("0.0.0.0", "localhost") for each in (service.flight, service.http))
        assert flight.startswith("grpc+tls://")
        with fl.connect(flight, tls_root_certs=certificate.read_bytes()) as client:
            options = fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {made.token}".encode())])
            writer, answers = putting(client, {"table": "events"}, SCHEMA, options)
            writer.write_batch(rows("a", 1))
            assert json.loads(answers.read().to_pybytes())["outcome"] == "committed"
            writer.close()
            with pytest.raises(fl.FlightUnauthenticatedError):
                position(client, "events", "a")
        context = ssl.create_default_context(cafile=str(certificate))
        headers = {"content-type": "application/jsonl", "authorization": f"Bearer {made.token}"}
        request = urllib.request.Request(f"{http}/tables/events/rows", b'{"stream": "b", "n": 2}', headers)
        with urllib.request.urlopen(request, context=context) as answer:
            assert answer.status == 200
        del headers["authorization"]
        request = urllib.request.Request(f"{http}/tables/events/rows", b'{"stream": "b", "n": 3}', headers)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(request, context=context)
        assert service.stop() == 0
    assert counted(table) == {("a", 1): 1, ("b", 2): 1}


class ServeToken:
    """A token that may append to every table, in a file of grants."""

    def __init__(self, file: Path) -> None:
        from txlog.serve.access import new_grant

        self.token, grant = new_grant("tests", ("*",), ("append",))
        facts = {"name": grant.name, "sha256": grant.sha256, "tables": grant.tables, "rights": grant.rights}
        file.write_text(json.dumps(facts) + "\n")


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
    signed = made.add_extension(names, critical=False).sign(key, hashes.SHA256())
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return certificate, private


# --- the hunt -------------------------------------------------------------------------------------------------------


class Fleet:
    """Two services of one table, each with a journal, which are killed and started again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.services = [self._started(number) for number in range(2)]

    def _started(self, number: int) -> ServeProcess:
        pace = ("--max-delay", "0.2", "--maintain-every", "1", "--max-wait", "2")
        return ServeProcess(self._folder, "--journal", self._folder / f"journal-{number}", *pace)

    def kill(self, number: int) -> None:
        self.services[number].kill()
        self.services[number] = self._started(number)

    def stop(self) -> None:
        for each in self.services:
            assert each.stop() == 0


class Client(threading.Thread):
    """Sends the batches of one stream to either service until each was answered; dies now and then, and begins anew.

    A durable answer counts, so the client may only go on elsewhere when the table has what was answered.
    """

    def __init__(self, fleet: Fleet, stream: str, answer: str, stop: threading.Event) -> None:
        super().__init__(name=stream)
        self._fleet, self._stream, self._answer, self._is_over = fleet, stream, answer, stop
        self._chance = random.Random(stream)
        self.answered = -1

    def run(self) -> None:
        while not self._is_over.is_set():
            service = self._chance.choice(self._fleet.services)
            try:
                with fl.connect(service.flight) as client:
                    self._send(client)
            except (pa.ArrowException, ConnectionError, StopIteration):
                self._is_over.wait(0.05)

    def _send(self, client: Any) -> None:
        terms = {"table": "events", "stream": self._stream, "answer": self._answer}
        first = position(client, "events", self._stream)["taken"] + 1
        if first <= self.answered:  # what was answered is in the other one's journal: it comes when that one runs
            self._is_over.wait(0.05)
            return
        writer, answers = putting(client, terms, SCHEMA)
        for number in range(first, first + self._chance.randrange(1, 30)):
            batch = rows(self._stream, number * 10, number * 10 + 1)
            writer.write_with_metadata(batch, json.dumps({"batch": number}).encode())
            said = answers.read()
            if said is None or "error" in json.loads(said.to_pybytes()):
                raise ConnectionError
            self.answered = max(self.answered, number)
            if self._is_over.is_set() or self._chance.random() < 0.02:
                return  # without an end of the call, as a client that was killed
        writer.close()


@pytest.mark.hunt(part="serve")
def test_no_batch_is_lost_or_doubled_while_services_and_clients_are_killed(tmp_path: Path, table: txlog.Table) -> None:
    fleet, stop, chance = Fleet(tmp_path), threading.Event(), random.Random(os.environ.get("TXLOG_FUZZ_SEED", "1"))
    clients = [
        Client(fleet, f"{answer}-{number}", answer, stop) for answer in ("durable", "committed") for number in range(4)
    ]
    for each in clients:
        each.start()
    for kill in range(KILLS):
        stop.wait(chance.uniform(0.1, 0.7))
        fleet.kill(kill % 2)
    stop.set()
    for each in clients:
        each.join()
    fleet.stop()
    found = counted(table)
    assert set(found.values()) == {1}
    for each in clients:
        numbers = sorted(n for stream, n in found if stream == each.name)
        batches = len(numbers) // 2
        assert numbers == [number * 10 + row for number in range(batches) for row in (0, 1)]
        assert each.answered < batches, "an answered batch is lost"
        assert table.snapshot().transaction_version(f"serve/{each.name}") == batches - 1
    print(f"{KILLS} kills, {sum(found.values())} rows, {table.snapshot().version} versions")


@pytest.mark.hunt(part="serve")
def test_the_memory_of_a_service_stays_flat_however_many_batches_it_takes(tmp_path: Path, table: txlog.Table) -> None:
    """Durable and committed answers: what waits for a commit is bounded, and nothing else is kept."""

    def send(service: ServeProcess, stream: str, answer: str, first: int) -> None:
        with fl.connect(service.flight) as client:
            terms = {"table": "events", "stream": stream, "first": first, "answer": answer}
            writer, answers = putting(client, terms, SCHEMA)
            for number in range(first, first + BATCHES):
                writer.write_batch(rows(stream, number))
                assert "error" not in json.loads(answers.read().to_pybytes())
            writer.close()

    pace = ("--journal", tmp_path / "journal", "--max-delay", "1", "--maintain-every", "5")
    memory_mb = []
    with serve(tmp_path, *pace) as service:
        for turn in range(6):
            streams = [(f"{answer}-{number}", answer) for answer in ("durable", "committed") for number in range(8)]
            senders = [
                threading.Thread(target=send, args=(service, stream, answer, turn * BATCHES))
                for stream, answer in streams
            ]
            for each in senders:
                each.start()
            for each in senders:
                each.join()
            status = Path(f"/proc/{service.process.pid}/status").read_text()
            memory_mb.append(int(status.partition("VmRSS:")[2].split()[0]) // 1024)
        assert service.stop() == 0
    assert len(counted(table)) == 6 * 16 * BATCHES
    print(f"{6 * 16 * BATCHES} batches, memory after each sixth: {memory_mb} MB")
    assert memory_mb[-1] < memory_mb[1] + 60
