"""A `User-Agent` header in words."""

from portico.domain.agents import read_agent


def agent_words(user_agent: str) -> str:
    """The browser and its system, or the program: "Firefox on Windows", "curl"."""
    agent = read_agent(user_agent)
    if agent.program is not None:
        return agent.program or "Unknown program"
    return f"{agent.browser or 'A browser'} on {agent.system or 'an unknown system'}"
