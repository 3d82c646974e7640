"""Keeps secrets out of logs."""

import re

_SECRETS = re.compile(
    r"sk_(?:live|test|read)_[0-9A-Za-z_]+|o(?:at|rt|ac|cs)_[\w-]+|eyJ[\w-]+\.[\w-]+\.[\w-]*"
    r"|(?<=://)[^/@\s]+(?=@)"
)


def redact(text: str) -> str:
    """`text` without API keys, the tokens, codes and secrets of OAuth, JSON Web Tokens and the
    credentials of URLs."""
    if "_" in text or "eyJ" in text or "@" in text:
        return _SECRETS.sub("(redacted)", text)
    return text
