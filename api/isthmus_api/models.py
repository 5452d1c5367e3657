"""The bases of all models: what is answered, and what is asked for."""

from pydantic import BaseModel, ConfigDict


class Shape(BaseModel):
    """A value that is answered; its fields are always there."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True, frozen=True)


class Wanted(BaseModel):
    """A body; what it does not know is a mistake of the sender's, and so is a number in quotes."""

    model_config = ConfigDict(extra="forbid", strict=True, str_max_length=100_000)
