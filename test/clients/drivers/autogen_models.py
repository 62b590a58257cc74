"""Flavors: `chat` and `messages`, model clients of autogen-ext."""

import asyncio

from autogen_core.models import UserMessage
from driver import JOB, QUESTION, SAMPLES, drive

INFO = {"vision": False, "function_calling": True, "json_output": True, "structured_output": True, "family": "unknown"}


def client_of(model, **more):
    if JOB["flavor"] == "messages":
        from autogen_ext.models.anthropic import AnthropicChatCompletionClient

        return AnthropicChatCompletionClient(model=model, api_key=JOB["key"], base_url=JOB["url"], model_info=INFO, **more)
    from autogen_ext.models.openai import OpenAIChatCompletionClient

    return OpenAIChatCompletionClient(model=model, api_key=JOB["key"], base_url=JOB["url"] + "/v1", model_info=INFO, **more)


async def plain(model, **more):
    result = await client_of(model, **more).create([UserMessage(content=QUESTION, source="user")])
    return {"text": result.content}


async def stream(model):
    # The last item is the whole result.
    *pieces, result = [item async for item in client_of(model).create_stream([UserMessage(content=QUESTION, source="user")])]
    return {"text": result.content, "pieces": len(pieces)}


drive(
    {
        "plain": lambda model: asyncio.run(plain(model)),
        "stream": lambda model: asyncio.run(stream(model)),
        "errors": lambda model: asyncio.run(plain(model, max_retries=0)),
        "retries": lambda model: asyncio.run(plain(model)),
        "timeout": lambda model: asyncio.run(plain(model, timeout=SAMPLES["timeoutMs"] / 1000, max_retries=0)),
    }
)
