"""The clients whose users make the traffic."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Client:
    """One customer of the platform: its ``share`` of the visits (relative) and its gap timeout in seconds."""

    name: str
    share: float
    timeout_s: int
    states_timeout: bool = False
    """Whether its events carry the timeout themselves; else the stream spec has to know it."""


CLIENTS = (
    Client("acme", share=0.40, timeout_s=30),
    Client("globex", share=0.25, timeout_s=60),
    Client("initech", share=0.15, timeout_s=120),
    Client("hooli", share=0.15, timeout_s=90, states_timeout=True),
    Client("umbrella", share=0.05, timeout_s=45, states_timeout=True),
)
