"""The official client of OpenAI's API against `kvphase serve`: lists models, completes, chats, streams.

Usage: openai_client_test.py PROGRAM CHECKPOINT_TOOL
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import openai

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from kvphase_server import kvphase_server, post  # noqa: E402

KEY = "s3cret-test-key"
PROMPT = [3, 20, 90, 5, 0, 20]


class OpenAiClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        checkpoint = os.path.join(folder, "tiny-model")
        subprocess.run([CHECKPOINT_TOOL, "tied", checkpoint], check=True)
        url = cls.enterClassContext(kvphase_server(
            PROGRAM, checkpoint, "--api-key-env", "KVPHASE_TEST_KEY",
            environment={**os.environ, "KVPHASE_TEST_KEY": KEY}))
        cls.url = url + "/v1"
        cls.client = openai.OpenAI(base_url=cls.url, api_key=KEY, max_retries=0)

    def test_lists_and_retrieves_the_model(self):
        models = list(self.client.models.list())
        self.assertEqual([model.id for model in models], ["tiny-model"])
        self.assertEqual(self.client.models.retrieve("tiny-model").owned_by, "kvphase")

    def test_completes_a_token_prompt_with_log_probabilities(self):
        reply = self.client.completions.create(
            model="tiny-model", prompt=PROMPT, max_tokens=3, temperature=0, logprobs=5,
            extra_body={"return_token_ids": True})
        choice = reply.choices[0]
        self.assertEqual(reply.usage.prompt_tokens, len(PROMPT))
        self.assertEqual(reply.usage.completion_tokens, 3)
        self.assertEqual(reply.usage.prompt_tokens_details.cached_tokens, 0)
        self.assertEqual(choice.finish_reason, "length")
        self.assertEqual(choice.prompt_token_ids, PROMPT)
        self.assertEqual(len(choice.token_ids), 3)
        self.assertEqual("".join(choice.logprobs.tokens), choice.text)
        for token, logprob, top in zip(choice.logprobs.tokens, choice.logprobs.token_logprobs,
                                       choice.logprobs.top_logprobs):
            self.assertEqual(len(top), 5)
            self.assertEqual(max(top, key=top.get), token, "greedy takes the likeliest")
            self.assertEqual(top[token], logprob)

    def test_a_stream_says_the_same_as_a_whole_reply(self):
        wanted = dict(model="tiny-model", prompt=PROMPT, max_tokens=8, temperature=1, seed=5)
        whole = self.client.completions.create(**wanted)
        chunks = list(self.client.completions.create(
            **wanted, stream=True, stream_options={"include_usage": True}))
        text = "".join(chunk.choices[0].text for chunk in chunks if chunk.choices)
        self.assertEqual(text, whole.choices[0].text)
        self.assertEqual(chunks[-1].usage, whole.usage)
        self.assertGreater(len(chunks), 8)

    def test_chats_whole_and_streamed(self):
        wanted = dict(model="tiny-model", max_tokens=4, temperature=0, logprobs=True, top_logprobs=2,
                      messages=[{"role": "user", "content": "f1 k3 v7 | k3"}])
        whole = self.client.chat.completions.create(**wanted)
        self.assertEqual(whole.usage.prompt_tokens, 5)
        self.assertEqual(len(whole.choices[0].logprobs.content), 4)
        self.assertEqual(len(whole.choices[0].logprobs.content[0].top_logprobs), 2)
        chunks = list(self.client.chat.completions.create(**wanted, stream=True))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].choices[0].finish_reason, "length")

    def test_errors_arrive_as_the_clients_own(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model="tiny-model", prompt=[100000])
        self.assertEqual(caught.exception.param, "prompt")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model="tiny-model", prompt=[1] * 5000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.NotFoundError):
            self.client.completions.create(model="another", prompt=PROMPT)
        stranger = openai.OpenAI(base_url=self.url, api_key="wrong", max_retries=0)
        with self.assertRaises(openai.AuthenticationError) as caught:
            stranger.models.list()
        self.assertNotIn(KEY, str(caught.exception))


if __name__ == "__main__":
    PROGRAM, CHECKPOINT_TOOL = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main(verbosity=2)
