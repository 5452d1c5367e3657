"""The bases of all models: of responses and of requests."""

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A model of a response; its fields are always present."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True, frozen=True)


class RequestBody(BaseModel):
    """A model of a request body; unknown fields and numbers in quotes are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, str_max_length=100_000)
