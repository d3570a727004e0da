"""The clients whose users make the traffic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Client:
    """A customer of the platform, with its relative ``share`` of the visits and its gap timeout in seconds."""

    name: str
    share: float
    timeout_s: int
    states_timeout: bool = False
    """Whether its events carry the timeout. If not, the stream spec must set it."""


CLIENTS = (
    Client("acme", share=0.40, timeout_s=30),
    Client("globex", share=0.25, timeout_s=60),
    Client("initech", share=0.15, timeout_s=120),
    Client("hooli", share=0.15, timeout_s=90, states_timeout=True),
    Client("umbrella", share=0.05, timeout_s=45, states_timeout=True),
)
