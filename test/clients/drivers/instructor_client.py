"""Flavors: `chat` and `messages`. instructor returns structured output only."""

import instructor
from driver import CITY, JOB, SAMPLES, drive
from pydantic import BaseModel


class Weather(BaseModel):
    city: str
    days: int


def client_of(**more):
    if JOB["flavor"] == "messages":
        from anthropic import Anthropic

        return instructor.from_anthropic(Anthropic(base_url=JOB["url"], api_key=JOB["key"], **more))
    from openai import OpenAI

    return instructor.from_openai(OpenAI(base_url=JOB["url"] + "/v1", api_key=JOB["key"], **more))


def arguments(model):
    limit = {"max_tokens": 500} if JOB["flavor"] == "messages" else {}
    messages = [{"role": "user", "content": CITY}]
    return {"model": model, "response_model": Weather, "messages": messages, "max_retries": 0, **limit}


def extract(model, **more):
    return {"value": client_of(**more).chat.completions.create(**arguments(model)).model_dump()}


def partial(model):
    return {"value": list(client_of().chat.completions.create_partial(**arguments(model)))[-1].model_dump()}


drive(
    {
        "structured": extract,
        "partial": partial,
        "errors": lambda model: extract(model, max_retries=0),
        "timeout": lambda model: extract(model, timeout=SAMPLES["timeoutMs"] / 1000, max_retries=0),
    }
)
