"""Flavors: `chat` and `messages`, model classes of strands-agents."""

import asyncio

from driver import JOB, QUESTION, SAMPLES, drive
from strands import Agent


def agent_of(model, **more):
    if JOB["flavor"] == "messages":
        from strands.models.anthropic import AnthropicModel

        args = {"api_key": JOB["key"], "base_url": JOB["url"], **more}
        return Agent(model=AnthropicModel(client_args=args, model_id=model, max_tokens=500), callback_handler=None)
    from strands.models.openai import OpenAIModel

    args = {"api_key": JOB["key"], "base_url": JOB["url"] + "/v1", **more}
    return Agent(model=OpenAIModel(client_args=args, model_id=model), callback_handler=None)


def plain(model, **more):
    return {"text": str(agent_of(model, **more)(QUESTION)).removesuffix("\n")}


async def stream(model):
    pieces = [event["data"] async for event in agent_of(model).stream_async(QUESTION) if "data" in event]
    return {"text": "".join(pieces), "pieces": len(pieces)}


# The library streams every request, so a plain call sees the failures of a stream too.
drive(
    {
        "plain": plain,
        "stream": lambda model: asyncio.run(stream(model)),
        "errors": lambda model: plain(model, max_retries=0),
        "retries": plain,
        "timeout": lambda model: plain(model, timeout=SAMPLES["timeoutMs"] / 1000, max_retries=0),
    }
)
