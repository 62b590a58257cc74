"""Flavors: `chat`, `responses` and `messages`, model classes of pydantic-ai."""

import base64

from driver import CITY, JOB, QUESTION, SAMPLES, TOOL_RESULTS, drive
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, ModelContextWindowExceededError, ThinkingPart


class Weather(BaseModel):
    city: str
    days: int


def model_of(model):
    if JOB["flavor"] == "messages":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(model, provider=AnthropicProvider(api_key=JOB["key"], base_url=JOB["url"]))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIResponsesModel if JOB["flavor"] == "responses" else OpenAIChatModel
    return kind(model, provider=OpenAIProvider(base_url=JOB["url"] + "/v1", api_key=JOB["key"]))


def agent_of(model, **more):
    return Agent(model_of(model), **more)


def plain(model, prompt):
    result = agent_of(model).run_sync(prompt)
    usage = result.usage() if callable(result.usage) else result.usage
    return {"text": result.output, "tokens": {"input": usage.input_tokens, "output": usage.output_tokens}}


def stream(model):
    result = agent_of(model).run_stream_sync(QUESTION)
    pieces = list(result.stream_text(delta=True, debounce_by=None))
    return {"text": "".join(pieces), "pieces": len(pieces)}


def use_tools(model, run):
    calls = []
    agent = agent_of(model)

    @agent.tool_plain
    def get_weather(city: str, days: int) -> str:
        calls.append({"name": "get_weather", "input": {"city": city, "days": days}})
        return TOOL_RESULTS["get_weather"]

    @agent.tool_plain
    def get_time(zone: str) -> str:
        calls.append({"name": "get_time", "input": {"zone": zone}})
        return TOOL_RESULTS["get_time"]

    return {"text": run(agent), "calls": sorted(calls, key=lambda call: call["name"], reverse=True)}


def streamed(agent):
    return "".join(agent.run_stream_sync(CITY).stream_text(delta=True, debounce_by=None))


def overflow(model):
    try:
        return plain(model, QUESTION)
    except ModelContextWindowExceededError:
        return {"overflow": True}


def reasoning(model):
    thinking = {"anthropic_thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000}
    result = agent_of(model).run_sync(QUESTION, model_settings=thinking if JOB["flavor"] == "messages" else None)
    parts = [part.content for part in result.response.parts if isinstance(part, ThinkingPart)]
    return {"text": result.output, "reasoning": "".join(parts)}


IMAGE = BinaryContent(data=base64.b64decode(SAMPLES["image"]), media_type="image/png")
drive(
    {
        "plain": lambda model: plain(model, QUESTION),
        "stream": stream,
        "tools": lambda model: use_tools(model, lambda agent: agent.run_sync(CITY).output),
        "stream-tools": lambda model: use_tools(model, streamed),
        "parallel-tools": lambda model: use_tools(model, lambda agent: agent.run_sync(CITY).output),
        "structured": lambda model: {"value": agent_of(model, output_type=Weather).run_sync(CITY).output.model_dump()},
        "images": lambda model: plain(model, ["Inspect", IMAGE]),
        "errors": lambda model: plain(model, QUESTION),
        "retries": lambda model: plain(model, QUESTION),
        "overflow": overflow,
        "reasoning": reasoning,
    }
)
