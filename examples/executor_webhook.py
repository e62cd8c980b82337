"""A signed webhook, and a receiver that verifies it before it believes anything.

The key stands in the configuration, and a payload has its name. Whoever receives it may
get it again: the id of the instance stays the same. It needs the extras ``types`` and
``webhook``. It prints::

    refused: url: 169.254.169.254 is a link_local address, which is not allowed
    refused: secret: none is configured as 'bank'
    received: {'order': 7}
    sent: completed
    not believed: the signature does not match
"""

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

from go_scheduler import ConfigurationError, RetryPolicy, Scheduler
from go_scheduler.events import InstanceFinished, hears
from go_scheduler.handlers.job_types import JobTypes
from go_scheduler.handlers.signatures import InvalidSignature, verify_webhook
from go_scheduler.handlers.webhook import Secret, Webhook, WebhookSettings

KEY = "a long random text"


class Shop(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            verify_webhook(dict(self.headers), body, secrets=[KEY])
        except InvalidSignature as error:
            print("not believed:", error)
            self.send_error(401)
            return
        print("received:", json.loads(body), flush=True)
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> None:
    server = HTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, args=(0.05,)).start()
    port = server.server_port
    webhook = Webhook(
        secrets={"shop": Secret(value=KEY, hosts=["127.0.0.1"])},
        # A receiver on this machine is no public address.
        settings=WebhookSettings(networks=["127.0.0.0/8"], ports=[80, port]),
    )
    types = JobTypes()
    types.add("webhook", webhook, retry=RetryPolicy(max_attempts=5))
    finished = threading.Event()

    @hears(InstanceFinished)
    def hear(event: InstanceFinished) -> None:
        finished.set()

    url = f"http://127.0.0.1:{port}/orders"
    with Scheduler(types, listeners=[hear]) as scheduler:
        for wrong in (
            {"url": "http://169.254.169.254/latest/meta-data"},
            {"url": url, "secret": "bank"},
        ):
            try:
                scheduler.enqueue("webhook", payload=wrong)
            except ConfigurationError as error:
                print("refused:", error)
        sent = scheduler.enqueue("webhook", url=url, json={"order": 7}, secret="shop")
        finished.wait()
        print("sent:", scheduler.get_instance(sent.id).state)

    forged = urllib.request.Request(
        url,
        b"{}",
        headers={
            "Go-Scheduler-Instance": str(sent.id),
            "Go-Scheduler-Attempt": "1",
            "Go-Scheduler-Timestamp": "1767225600",
            "Go-Scheduler-Signature": "v1=00",
        },
    )
    try:
        urllib.request.urlopen(forged)
    except urllib.error.HTTPError as error:
        error.close()
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    main()
