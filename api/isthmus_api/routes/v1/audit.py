"""The audit log: who changed what."""

from __future__ import annotations

from pydantic import BaseModel, Field

from isthmus_api.limits import PAGE_MAX
from isthmus_api.models import Shape
from isthmus_api.registry import Routes
from isthmus_api.request_context import Call

routes = Routes("Audit", "/api/v1")


class AuditQuery(BaseModel):
    """A page of entries."""

    before: int = Field(0, ge=0, le=2**53, description="The last entry of the page before; 0 for the newest.")
    limit: int = Field(100, ge=1, le=PAGE_MAX)


class AuditEntry(Shape):
    """One change. Without a status it is in progress, or the process ended meanwhile."""

    entry_id: int
    at_ms: int
    actor: str
    remote: str
    action: str
    target: str
    status: int | None
    message: str


class AuditList(Shape):
    """The newest first; `next` is the cursor of the next page."""

    entries: list[AuditEntry]
    next: int | None


@routes.get("/audit")
async def list_audit(call: Call, query: AuditQuery) -> AuditList:
    """List changes and their outcomes."""
    page = await call.parts.audit.page(query.before or None, query.limit)
    entries = [AuditEntry.model_validate(entry, from_attributes=True) for entry in page]
    return AuditList(entries=entries, next=page[-1].entry_id if len(page) == query.limit else None)
