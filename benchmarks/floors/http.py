"""A server that answers what a worker asks, and does nothing else."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

app = FastAPI()
_WORK = {
    "instance_id": "00000000-0000-0000-0000-000000000007",
    "token": "x" * 64,
    "attempt": 1,
    "type": None,
    "payload": None,
    "metadata": {},
    "execute_at": "2030-01-01T00:00:00Z",
    "lease": 30,
}


@app.get("/v1/work")
async def take(max: int) -> dict[str, Any]:
    """Work, as much as is asked for."""
    return {"work": [_WORK] * max}


@app.post("/v1/work/complete")
async def complete_many(body: dict[str, Any]) -> dict[str, Any]:
    """That all is recorded."""
    return {"answers": [{"problem": None}] * len(body["completed"])}


@app.post("/v1/work/{id}/complete")
async def complete(id: str, body: dict[str, Any]) -> dict[str, Any]:
    """That it is recorded."""
    return {"answer": "recorded"}
