"""Flavors: `chat` and `messages`, model classes of strands-agents."""

from driver import JOB, QUESTION, call_cases, drive
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
drive(call_cases(plain, stream))
