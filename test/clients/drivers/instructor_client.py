"""Flavors: `chat` and `messages`. instructor returns structured output only."""

import instructor
from driver import CITY, JOB, drive
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


def extract(model, content, client=None):
    limit = {"max_tokens": 500} if JOB["flavor"] == "messages" else {}
    chat = (client or client_of()).chat.completions
    return chat.create(model=model, response_model=Weather, messages=[{"role": "user", "content": content}], max_retries=0, **limit)


drive(
    {
        "structured": lambda model: {"value": extract(model, CITY).model_dump()},
        "errors": lambda model: extract(model, CITY, client_of(max_retries=0)).model_dump(),
    }
)
