"""What a caller accepts and sends (RFC 9110 §8 and §12)."""

from portico.domain.errors import NotAcceptable, UnsupportedMediaType
from portico.http.messages import JSON, Request


def check_accept(request: Request, answer: str) -> None:
    """Raises `NotAcceptable` when `Accept` rules out this media type."""
    accept = request.headers.get("accept")
    if accept is None or accept == "*/*" or accept == answer:
        return
    accept = request.listed("accept") or ""
    if not accept.strip():
        return
    ranges = (answer, f"{answer.partition('/')[0]}/*", "*/*")
    best: tuple[int, float] = (-1, 0.0)
    for item in accept.split(","):
        media, *params = [part.strip().lower() for part in item.split(";")]
        if media in ranges:
            # The most specific range that covers the answer decides.
            best = max(best, (2 - media.count("*"), _quality(params)))
    if best[1] <= 0:
        raise NotAcceptable(f"This service answers {answer}; accept that or */*.")


def _quality(params: list[str]) -> float:
    for param in params:
        if param.startswith("q="):
            try:
                return float(param[2:])
            except ValueError:
                return 0.0
    return 1.0


def check_content(request: Request) -> None:
    """Raises `UnsupportedMediaType` unless the body is declared as plain JSON."""
    content = request.header("content-type") or ""
    media, *params = [part.strip().lower() for part in content.split(";")]
    if media != JSON:
        raise UnsupportedMediaType(f"Send the body as {JSON}.")
    for param in params:
        name, _, value = param.partition("=")
        if name == "charset" and value.strip('"') not in ("utf-8", "utf8"):
            raise UnsupportedMediaType("Send the body as UTF-8.")
    if (request.header("content-encoding") or "identity").lower() != "identity":
        raise UnsupportedMediaType("Send the body without a content encoding.")
