"""Flavors: `chat` of haystack-ai, `messages` of anthropic-haystack."""

import os

from driver import JOB, QUESTION, call_cases, drive
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret

# The generator of messages has no parameter for it.
os.environ["ANTHROPIC_BASE_URL"] = JOB["url"]


def generator_of(model, **more):
    key = Secret.from_token(JOB["key"])
    if JOB["flavor"] == "messages":
        from haystack_integrations.components.generators.anthropic import AnthropicChatGenerator

        return AnthropicChatGenerator(model=model, api_key=key, **more)
    from haystack.components.generators.chat import OpenAIChatGenerator

    return OpenAIChatGenerator(model=model, api_key=key, api_base_url=JOB["url"] + "/v1", **more)


def plain(model, **more):
    return {"text": generator_of(model, **more).run([ChatMessage.from_user(QUESTION)])["replies"][0].text}


def stream(model):
    pieces = []
    reply = plain(model, streaming_callback=lambda chunk: pieces.append(chunk.content) if chunk.content else None)
    return {**reply, "pieces": len(pieces)}


drive(call_cases(plain, stream))
