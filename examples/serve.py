"""Many clients write one table through `txlog serve`, which is killed in the middle: every batch is in the table once.

Each client names its stream and numbers its batches. When it loses the service, it connects again, asks where its
stream stands, and goes on from there. Needs the extra `serve`.
"""

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pyarrow as pa
import pyarrow.flight as fl

import txlog

CLIENTS, BATCHES = 8, 100
address = ""


def start(folder: str, journal: str) -> subprocess.Popen[str]:
    """Start the service; its first line of JSON says where it listens."""
    global address
    command = [sys.executable, "-m", "txlog", "serve", folder, "--journal", journal, "--quiet", "--json"]
    process = subprocess.Popen([*command, "--flight-port", "0", "--http-port", "-1"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        text += process.stdout.readline()
    address = json.loads(text)["at"][0]
    return process


def send(stream: str) -> None:
    """Send all batches of a stream, and wait for the answer to each. Ask again where it stands after each failure."""
    rows = pa.record_batch({"stream": [stream], "n": pa.array([0], pa.int64())})
    terms = json.dumps({"table": "events", "stream": stream, "answer": "durable"}).encode()
    while True:
        try:
            with fl.connect(address) as client:
                asked = json.dumps({"table": "events", "stream": stream}).encode()
                stands = json.loads(next(client.do_action(fl.Action("position", asked))).body.to_pybytes())
                writer, answers = client.do_put(fl.FlightDescriptor.for_command(terms), rows.schema)
                for number in range(stands["taken"] + 1, BATCHES):
                    batch = pa.record_batch({"stream": [stream], "n": pa.array([number], pa.int64())})
                    writer.write_with_metadata(batch, json.dumps({"batch": number}).encode())
                    if answers.read() is None:
                        raise ConnectionError("the service went away")
                writer.close()
                return
        except (pa.ArrowException, ConnectionError, StopIteration):
            time.sleep(0.1)


with tempfile.TemporaryDirectory() as folder:
    table = txlog.Catalog(folder).create("events", "stream string, n bigint")
    service = start(folder, f"{folder}/journal")
    clients = [threading.Thread(target=send, args=(f"till-{number}",)) for number in range(CLIENTS)]
    for each in clients:
        each.start()
    time.sleep(0.3)
    service.kill()
    service.wait()
    print(f"killed the service: {table.snapshot().count()} of {CLIENTS * BATCHES} rows are in the table")
    service = start(folder, f"{folder}/journal")
    for each in clients:
        each.join()
    service.send_signal(signal.SIGTERM)
    service.wait()

    rows = table.to_arrow()
    distinct = rows.group_by(["stream", "n"]).aggregate([]).num_rows
    print(f"rows {rows.num_rows}, distinct {distinct}, in {table.snapshot().version} versions")
    assert rows.num_rows == distinct == CLIENTS * BATCHES
