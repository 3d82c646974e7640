"""What a `User-Agent` says, in human words. It may say anything: this is a hint, never a proof."""

_BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
)
_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)
_LONGEST = 60


def agent_words(user_agent: str) -> str:
    """The browser and its system, or the program: "Firefox on Windows", "curl"."""
    if not user_agent.startswith("Mozilla/"):
        program = user_agent.split("/")[0].split()
        return program[0][:_LONGEST] if program else "An unknown program"
    browser = _first(_BROWSERS, user_agent)
    system = _first(_SYSTEMS, user_agent)
    return f"{browser or 'A browser'} on {system or 'an unknown system'}"


def _first(names: tuple[tuple[str, str], ...], user_agent: str) -> str | None:
    return next((words for sign, words in names if sign in user_agent), None)
