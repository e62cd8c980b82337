"""How the server is."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

router = APIRouter(tags=["system"])


class Alive(BaseModel):
    """That the process lives."""

    status: Literal["ok"] = "ok"


@router.get("/healthz")
async def healthz() -> Alive:
    """The process lives: nothing else is asked."""
    return Alive()
