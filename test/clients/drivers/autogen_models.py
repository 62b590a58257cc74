"""Flavors: `chat` and `messages`, model clients of autogen-ext."""

from autogen_core.models import UserMessage
from driver import JOB, QUESTION, call_cases, drive

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


drive(call_cases(plain, stream))
