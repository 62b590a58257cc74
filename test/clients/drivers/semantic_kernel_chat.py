"""Flavors: `chat` and `messages`, chat services of semantic-kernel."""

from driver import JOB, QUESTION, call_cases, drive
from semantic_kernel.contents import ChatHistory


def service_of(model, **more):
    if JOB["flavor"] == "messages":
        from anthropic import AsyncAnthropic
        from semantic_kernel.connectors.ai.anthropic import AnthropicChatCompletion, AnthropicChatPromptExecutionSettings

        client = AsyncAnthropic(api_key=JOB["key"], base_url=JOB["url"], **more)
        settings = AnthropicChatPromptExecutionSettings(max_tokens=500)
        return AnthropicChatCompletion(ai_model_id=model, api_key=JOB["key"], async_client=client), settings
    from openai import AsyncOpenAI
    from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings

    client = AsyncOpenAI(api_key=JOB["key"], base_url=JOB["url"] + "/v1", **more)
    return OpenAIChatCompletion(ai_model_id=model, async_client=client), OpenAIChatPromptExecutionSettings()


def ask():
    history = ChatHistory()
    history.add_user_message(QUESTION)
    return history


async def plain(model, **more):
    service, settings = service_of(model, **more)
    return {"text": (await service.get_chat_message_content(ask(), settings)).content}


async def stream(model):
    service, settings = service_of(model)
    pieces = [
        chunk.content
        async for chunk in service.get_streaming_chat_message_content(ask(), settings)
        if chunk is not None and chunk.content
    ]
    return {"text": "".join(pieces), "pieces": len(pieces)}


drive(call_cases(plain, stream))
