"""Reads each body of a file as Python services do: `json`, and `email` for multipart. A body is a line of JSON; so is what was read."""

import base64
import email
import email.policy
import json
import sys
from urllib.parse import unquote


def texts_of(value):
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in texts_of(item)]
    if isinstance(value, dict):
        return [text for key, item in value.items() for text in [key, *texts_of(item)]]
    return []


def first_wins(pairs):
    members = {}
    for key, value in pairs:
        members.setdefault(key, value)
    return members


def plain_number(text):
    value = float(text)
    return f"{text} {value:.0f}" if abs(value) < 1e20 else text


def read_json(body):
    texts = []
    limits = []
    for hook in (dict, first_wins):
        for strict in (True, False):
            try:
                value = json.loads(body, strict=strict, object_pairs_hook=hook, parse_int=str, parse_float=plain_number)
            except (ValueError, RecursionError):
                continue
            texts += texts_of(value)
            if isinstance(value, dict):
                limits.append({key: item.split(" ")[-1] for key, item in value.items() if isinstance(item, str)})
    return {"texts": texts, "limits": limits}


def read_multipart(body, content_type, file_names):
    texts = []
    fields = []
    head = f"Content-Type: {content_type}\r\nMIME-Version: 1.0\r\n\r\n".encode()
    for policy in (email.policy.HTTP, email.policy.compat32):
        try:
            message = email.message_from_bytes(head + body, policy=policy)
            parts = [part for part in message.walk() if not part.is_multipart()]
        except Exception:
            continue
        for part in parts:
            try:
                name = part.get_param("name", header="content-disposition")
                file_name = part.get_filename()
                texts += [str(text) for text in (name, file_name) if text]
                if file_name is not None and name in file_names:
                    continue
                content = part.get_payload(decode=True) or b""
                charset = part.get_content_charset() or "utf-8"
                text = content.decode(charset, "replace")
                texts += [text, unquote(text)] if "urlencoded" in part.get_content_type() else [text]
                fields.append([str(name), text])
            except Exception:
                continue
    return {"texts": texts, "fields": fields}


with open(sys.argv[1]) as bodies:
    for line in bodies:
        case = json.loads(line)
        body = base64.b64decode(case["body"])
        if case["kind"] == "json":
            read = read_json(body)
        else:
            read = read_multipart(body, case["content_type"], case["file_names"])
        print(json.dumps(read))
