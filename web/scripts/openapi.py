"""Prints the control plane's OpenAPI document, from which the console's types are made."""

import json

from isthmus_api.openapi import document
from isthmus_api.routes import all_routes

print(json.dumps(document(all_routes(), "console")))
