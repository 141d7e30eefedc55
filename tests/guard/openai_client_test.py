"""The official client of OpenAI's API through `kvphase guard`, in front of a small server that is wrong at one phase in four.

Usage: openai_client_test.py PROGRAM
"""

import http.server
import json
import signal
import subprocess
import sys
import threading
import unittest

import openai

FACT = "FACT"
RIGHT, WRONG = "K-7731", "K-7781"


class Upstream(http.server.BaseHTTPRequestHandler):
    """Counts words and line breaks as tokens; wrong where the fact's position is 1 modulo 4."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, reply):
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer({"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tokens = " ".join(m["content"] for m in body["messages"]).replace("\n", " \n ").split(" ")
        tokens = [token for token in tokens if token]
        said = WRONG if tokens.index(FACT) % 4 == 1 else RIGHT
        if not body.get("stream"):
            self.answer({"id": "1", "object": "chat.completion", "created": 1, "model": body["model"],
                         "choices": [{"index": 0, "message": {"role": "assistant", "content": said},
                                      "finish_reason": "stop"}],
                         "usage": {"prompt_tokens": len(tokens), "completion_tokens": 1, "total_tokens": len(tokens) + 1}})
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        events = [json.dumps({"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m",
                              "choices": [{"index": 0, "delta": {"content": c}, "finish_reason": None}]}) for c in said]
        for event in events + ["[DONE]"]:
            data = f"data: {event}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")


class GuardedClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        cls.addClassCleanup(upstream.server_close)
        cls.addClassCleanup(upstream.shutdown)
        cls.guard = subprocess.Popen(
            [PROGRAM, "guard", "--upstream", f"http://127.0.0.1:{upstream.server_port}", "--port", "0", "-q"],
            stdout=subprocess.PIPE, text=True)
        cls.addClassCleanup(cls.stop)
        url = cls.guard.stdout.readline().strip()
        cls.client = openai.OpenAI(base_url=url + "/v1", api_key="sk-x", max_retries=0)

    @classmethod
    def stop(cls):
        cls.guard.send_signal(signal.SIGINT)
        cls.guard.wait(30)
        cls.guard.stdout.close()

    def ask(self, words=1, model="m", guard=None, **options):
        messages = [{"role": "user", "content": "a " * words + FACT + " b"}]
        headers = {"X-Kvphase-Guard": guard} if guard else {}
        return self.client.chat.completions.create(model=model, messages=messages, extra_headers=headers, **options)

    def test_models_replies_and_streams_pass(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["m"])
        self.assertEqual(self.ask().choices[0].message.content, WRONG)
        self.assertNotIn("kvphase_guard", self.ask().model_extra)
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in self.ask(stream=True)), WRONG)

    def test_the_suffix_reports(self):
        reply = self.ask(model="m:guard")
        self.assertEqual(reply.choices[0].message.content, WRONG)
        found = reply.model_extra["kvphase_guard"]
        self.assertEqual((found["verdict"], found["positions"]), ("disagree", "verified"))
        self.assertEqual(found["differing_offsets"], [0])

    def test_majority_is_right_at_every_phase(self):
        answers = [self.ask(words=i % 4, guard="4, majority").choices[0].message.content for i in range(200)]
        print(f"majority right in {answers.count(RIGHT)} of {len(answers)}")
        self.assertEqual(answers.count(RIGHT), len(answers))
        stream = self.ask(guard="majority", stream=True)
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in stream), RIGHT)

    def test_a_refusal_is_an_error_that_is_not_asked_again(self):
        with self.assertRaises(openai.UnprocessableEntityError) as refused:
            self.ask(guard="refuse")
        self.assertEqual(refused.exception.code, "disagree")


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
