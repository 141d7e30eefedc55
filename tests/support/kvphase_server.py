"""Starts `kvphase serve` for a test and stops it as a person would, with Ctrl-C."""

import contextlib
import json
import signal
import subprocess
import urllib.error
import urllib.request


@contextlib.contextmanager
def kvphase_server(program, checkpoint, *options, environment=None):
    """Yields the URL; afterwards checks that the server ended cleanly."""
    process = subprocess.Popen(
        [program, "serve", checkpoint, "--port", "0", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        url = process.stdout.readline().strip()
        if not url.startswith("http://127.0.0.1:"):
            process.kill()
            raise AssertionError(f"no URL but {url!r}; stderr: {process.stderr.read()}")
        yield url
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0, f"exit status {process.returncode}"
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def post(url, body, timeout=60):
    """The JSON reply; an HTTP error raises with the server's words."""
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{url}: {error.code} {error.read().decode()}") from error
